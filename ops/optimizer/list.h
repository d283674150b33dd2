/* list.h - every optimizer, by weft_optimizer.type: optimizer_NAME is in the file of its update op. */
X(sgd)
X(adam)
X(adamw)
