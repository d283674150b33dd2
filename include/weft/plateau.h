/** @file
 * plateau.h - a learning rate that falls when a metric no longer improves.
 */
#ifndef WEFT_PLATEAU_H
#define WEFT_PLATEAU_H

#include "weft/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/** torch.optim.lr_scheduler.ReduceLROnPlateau. The metric is known to the training loop alone, so this is
 * not a part of a plan: the loop calls weft_plateau_step() after each evaluation. Zeroes are PyTorch's
 * defaults. The program may save it, it holds no pointers. */
typedef struct weft_plateau {
    bool max;         /**< the metric should grow; else it should fall */
    bool absolute;    /**< `threshold` is a difference; else a share of the best metric */
    double factor;    /**< multiplies the rate, below 1; 0: 0.1 */
    int patience;     /**< evaluations without improvement that are allowed; 0: 10; below 0: 0 */
    int cooldown;     /**< evaluations after a fall that are not counted */
    double threshold; /**< an improvement is more than this; 0: 1e-4; WEFT_ZERO: a true 0 */
    double min_lr;    /**< rates do not fall below it */
    double eps;       /**< a smaller fall is left out; 0: 1e-8; WEFT_ZERO: a true 0 */
    bool has_best;    /**< state: an evaluation was counted */
    double best;      /**< state: the best metric */
    int bad;          /**< state: evaluations in a row without improvement */
    int cooling;      /**< state: evaluations that still are not counted */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_plateau;

/** Takes a metric, and lowers the base learning rate of an optimizer (its name as in weft_optimizer; NULL: of
 * all), as weft_store_set_lr() does, where it is time. All ranks must call it with the same metric. */
WEFT_API weft_status weft_plateau_step(weft_plateau *plateau, weft_store *store, const char *optimizer,
                                       double metric, weft_error *error);

#ifdef __cplusplus
}
#endif
#endif
