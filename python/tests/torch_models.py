"""The models that weft.from_torch is judged by: a fixed list, one row a model, made from random weights.

The list was committed before the importer was written. Libraries have the versions of VERSIONS; other versions
make other models under the same names. A row's number is its seed.
"""
import importlib
from dataclasses import dataclass

VERSIONS = {"torch": "2.15.0", "torchvision": "0.29.2", "timm": "1.0.31", "transformers": "5.24.0", "diffusers": "0.42.1"}


@dataclass
class Row:
    """A model: where its class is, its arguments, and what a batch for it is.

    inputs: name -> (dtype, shape) or (dtype, shape, limit) of integers from 0 to limit - 1
    """
    name: str
    library: str
    make: str      # a Python expression, in which the library's module and `config` are known
    inputs: dict
    small: bool = False  # one of the 25 of tools/test.sh

    @property
    def batch(self):
        return next(iter(self.inputs.values()))[1][0]


def image(size, batch=8, channels=3, name="x"):
    return {name: ("float32", (batch, channels, size, size))}


def tokens(length=12, batch=8, vocabulary=99, name="input_ids"):
    return {name: ("int64", (batch, length), vocabulary)}


# ---- torchvision: 27 ----

def vision(name, size=64, batch=8, *, call=None, small=False, **options):
    given = ", ".join(["weights=None", *(f"{k}={v!r}" for k, v in {"num_classes": 10, **options}.items())])
    return Row(name, "torchvision", f"{call or 'models.' + name}({given})", image(size, batch), small)


TORCHVISION = [
    vision("alexnet", 80), vision("vgg11_bn", 32), vision("resnet18", small=True), vision("resnext50_32x4d"), vision("wide_resnet50_2", batch=2),
    vision("densenet121"), vision("squeezenet1_0", small=True), vision("inception_v3", 96, init_weights=False, aux_logits=False), vision("googlenet", 64, init_weights=False),
    vision("shufflenet_v2_x0_5"), vision("mobilenet_v2"), vision("mobilenet_v3_small", small=True), vision("mnasnet0_5"), vision("efficientnet_b0"),
    vision("efficientnet_v2_s", batch=4), vision("regnet_y_400mf"), vision("convnext_tiny", 64, 4), vision("vit_b_16", 32, 4, image_size=32),
    vision("swin_t", 64, 4), vision("swin_v2_t", 64, 4), vision("maxvit_t", 224, 2),
    vision("fcn_resnet50", 64, 2, call="models.segmentation.fcn_resnet50", weights_backbone=None),
    vision("deeplabv3_mobilenet_v3_large", 64, 4, call="models.segmentation.deeplabv3_mobilenet_v3_large", weights_backbone=None),
    vision("lraspp_mobilenet_v3_large", 64, 4, call="models.segmentation.lraspp_mobilenet_v3_large", weights_backbone=None),
    Row("r3d_18", "torchvision", "models.video.r3d_18(weights=None, num_classes=10)", {"x": ("float32", (2, 3, 4, 32, 32))}),
    Row("raft_small", "torchvision", "models.optical_flow.raft_small(weights=None)",
        {"image1": ("float32", (2, 3, 128, 128)), "image2": ("float32", (2, 3, 128, 128))}),
    vision("retinanet_resnet50_fpn", 64, 2, call="models.detection.retinanet_resnet50_fpn", weights_backbone=None),
]


# ---- timm: 62 ----

def timm(name, size=64, batch=8, small=False, **options):
    given = "".join(f", {k}={v!r}" for k, v in options.items())
    return Row(name, "timm", f"create_model({name!r}, num_classes=10{given})", image(size, batch), small)


TIMM = [
    timm("resnet10t", small=True), timm("resnet26d"), timm("resnetrs50", batch=4), timm("convnext_atto"), timm("convnextv2_atto"), timm("regnetx_002"),
    timm("ecaresnet26t"), timm("seresnet18"), timm("nfnet_l0", batch=4), timm("nf_resnet26"), timm("cspresnet50", batch=4), timm("vgg11", 32, 4),
    timm("edgenext_xx_small"), timm("fastvit_t8"), timm("poolformer_s12"), timm("mixer_s32_224", img_size=64),
    timm("resmlp_12_224", img_size=64), timm("gmlp_ti16_224", img_size=64), timm("vit_tiny_patch16_224", img_size=64, depth=4, small=True),
    timm("deit_tiny_patch16_224", img_size=64, depth=4), timm("beit_base_patch16_224", batch=2, img_size=64, depth=3),
    timm("eva02_tiny_patch14_224", 56, img_size=56, depth=4), timm("swin_tiny_patch4_window7_224", batch=4, img_size=64, window_size=4),
    timm("swinv2_cr_tiny_224", batch=4, img_size=64, window_size=2), timm("maxvit_pico_rw_256", batch=4, img_size=64),
    timm("coatnet_pico_rw_224", batch=4, img_size=64), timm("twins_svt_small", batch=4), timm("pvt_v2_b0"), timm("cait_xxs24_224", 32, 4, img_size=32, depth=6),
    timm("mobilevit_xxs"), timm("mobilevitv2_050"), timm("volo_d1_224", batch=2, img_size=64), timm("crossvit_tiny_240", 240, 2), timm("xcit_nano_12_p16_224"),
    timm("davit_tiny", batch=4), timm("focalnet_tiny_srf", batch=4), timm("visformer_tiny", img_size=64), timm("tnt_s_legacy_patch16_224", 32, 4, img_size=32),
    timm("nest_tiny", batch=2, img_size=64), timm("convit_tiny", img_size=64, depth=4), timm("hiera_tiny_224", batch=4, img_size=64),
    timm("vit_base_patch16_siglip_224", 32, 4, img_size=32, depth=3), timm("efficientformer_l1", 224, 2), timm("levit_128s", img_size=64), timm("ghostnet_050"),
    timm("hrnet_w18_small", batch=4), timm("xception41", batch=2), timm("inception_v4", 96, 2), timm("mobilenetv4_conv_small"), timm("efficientnet_lite0"),
    timm("tf_efficientnetv2_b0"), timm("dla46_c"), timm("res2net50_14w_8s", batch=4), timm("resnest14d", batch=4), timm("repvgg_a0"), timm("rexnet_100"),
    timm("coat_lite_tiny", batch=4, img_size=64), timm("ese_vovnet19b_dw"), timm("pit_ti_224", img_size=64), timm("starnet_s1"), timm("inception_next_atto"),
    timm("caformer_s18", batch=4),
]


# ---- transformers: 40 ----

def language(name, cls, config, inputs=None, small=False, **options):
    """A model of a tiny configuration."""
    sizes = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    given = ", ".join(f"{k}={v!r}" for k, v in {**sizes, **options}.items() if v is not ...)
    return Row(name, "transformers", f"{cls}({config}({given}))", inputs or tokens(), small)


def no_sizes(**options):
    return {**dict.fromkeys(("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"), ...), **options}


LLAMA = {"num_key_value_heads": 2, "max_position_embeddings": 64, "use_cache": False}
BERT = {"max_position_embeddings": 64, "use_cache": False}
SEEN = {"image_size": 32, "patch_size": 8, "vocab_size": ...}
PIXELS = image(32, name="pixel_values")
LENGTHS = {"input_ids": ("int64", (8, 12), 99), "decoder_input_ids": ("int64", (8, 9), 99)}

TRANSFORMERS = [
    language("gpt2", "GPT2LMHeadModel", "GPT2Config", small=True,
             **no_sizes(vocab_size=99, n_positions=64, n_embd=32, n_layer=2, n_head=4, use_cache=False)),
    language("bert", "BertForMaskedLM", "BertConfig", small=True, **BERT),
    language("roberta", "RobertaForMaskedLM", "RobertaConfig", **BERT),
    language("distilbert", "DistilBertForMaskedLM", "DistilBertConfig", **no_sizes(vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64)),
    language("electra", "ElectraForPreTraining", "ElectraConfig", embedding_size=16, **BERT),
    language("albert", "AlbertForMaskedLM", "AlbertConfig", embedding_size=16, max_position_embeddings=64),
    language("mobilebert", "MobileBertForMaskedLM", "MobileBertConfig", embedding_size=32, true_hidden_size=32, intra_bottleneck_size=32, max_position_embeddings=64),
    language("deberta_v2", "DebertaV2ForMaskedLM", "DebertaV2Config", relative_attention=True, pos_att_type=["p2c", "c2p"], max_position_embeddings=64,
             position_buckets=8, norm_rel_ebd="layer_norm"),
    language("t5", "T5ForConditionalGeneration", "T5Config", LENGTHS,
             **no_sizes(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False)),
    language("bart", "BartForConditionalGeneration", "BartConfig", LENGTHS, **no_sizes(
        vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
        max_position_embeddings=64, use_cache=False)),
    language("llama", "LlamaForCausalLM", "LlamaConfig", small=True, **LLAMA),
    language("qwen2", "Qwen2ForCausalLM", "Qwen2Config", **LLAMA),
    language("qwen3", "Qwen3ForCausalLM", "Qwen3Config", head_dim=8, **LLAMA),
    language("qwen3_moe", "Qwen3MoeForCausalLM", "Qwen3MoeConfig", head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, **LLAMA),
    language("mistral", "MistralForCausalLM", "MistralConfig", head_dim=8, sliding_window=4, **LLAMA),
    language("mixtral", "MixtralForCausalLM", "MixtralConfig", num_local_experts=4, num_experts_per_tok=2, **LLAMA),
    language("gemma", "GemmaForCausalLM", "GemmaConfig", head_dim=8, **LLAMA),
    language("gemma2", "Gemma2ForCausalLM", "Gemma2Config", head_dim=8, sliding_window=4, **LLAMA),
    language("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", head_dim=8, sliding_window=4, **LLAMA),
    language("phi3", "Phi3ForCausalLM", "Phi3Config", pad_token_id=0, **LLAMA),
    language("olmo2", "Olmo2ForCausalLM", "Olmo2Config", **LLAMA),
    language("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", max_position_embeddings=64, use_cache=False),
    language("opt", "OPTForCausalLM", "OPTConfig", **no_sizes(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64, word_embed_proj_dim=32, max_position_embeddings=64, use_cache=False)),
    language("bloom", "BloomForCausalLM", "BloomConfig", **no_sizes(vocab_size=99, hidden_size=32, n_layer=2, n_head=4, use_cache=False)),
    language("mamba", "MambaForCausalLM", "MambaConfig", **no_sizes(vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=8, use_cache=False)),
    language("falcon", "FalconForCausalLM", "FalconConfig", **no_sizes(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, use_cache=False)),
    language("vit", "ViTForImageClassification", "ViTConfig", PIXELS, small=True, **SEEN),
    language("dinov2", "Dinov2ForImageClassification", "Dinov2Config", PIXELS, **{**SEEN, "mlp_ratio": 2, "intermediate_size": ...}),
    language("dinov2_resized", "Dinov2ForImageClassification", "Dinov2Config", image(48, name="pixel_values"), **{**SEEN, "mlp_ratio": 2, "intermediate_size": ...}),
    language("beit", "BeitForImageClassification", "BeitConfig", PIXELS, **SEEN),
    language("swin", "SwinForImageClassification", "SwinConfig", PIXELS, **no_sizes(
        image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)),
    language("convnext", "ConvNextForImageClassification", "ConvNextConfig", PIXELS, **no_sizes(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 2, 1], patch_size=2)),
    language("segformer", "SegformerForSemanticSegmentation", "SegformerConfig", image(64, name="pixel_values"), **no_sizes(
        depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], decoder_hidden_size=16, num_labels=5)),
    language("resnet", "ResNetForImageClassification", "ResNetConfig", image(64, name="pixel_values"), **no_sizes(
        embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 2, 1], layer_type="basic")),
    Row("clip", "transformers", "CLIPModel(CLIPConfig(text_config=dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, "
        "intermediate_size=64, max_position_embeddings=32), vision_config=dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, "
        "image_size=32, patch_size=8), projection_dim=16))", {**tokens(), **PIXELS}),
    Row("siglip", "transformers", "SiglipModel(SiglipConfig(text_config=dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, "
        "intermediate_size=64, max_position_embeddings=12), vision_config=dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, "
        "image_size=32, patch_size=8)))", {**tokens(), **PIXELS}),
    Row("whisper", "transformers", "WhisperForConditionalGeneration(WhisperConfig(vocab_size=99, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2, "
        "encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=20, max_target_positions=16, "
        "use_cache=False, pad_token_id=0, decoder_start_token_id=1, eos_token_id=2))",
        {"input_features": ("float32", (8, 16, 40)), "decoder_input_ids": ("int64", (8, 9), 99)}),
    Row("detr", "transformers", "DetrForObjectDetection(DetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone_config=ResNetConfig("
        "embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1], layer_type='basic', out_features=['stage4']), d_model=32, encoder_layers=1, "
        "decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=8))",
        image(64, 2, name="pixel_values")),
    Row("wav2vec2", "transformers", "Wav2Vec2ForCTC(Wav2Vec2Config(vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, "
        "conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2))",
        {"input_values": ("float32", (2, 800))}),
    Row("poolformer", "transformers", "PoolFormerForImageClassification(PoolFormerConfig(hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1]))",
        image(64, name="pixel_values")),
]


# ---- diffusers: 4 ----

TIMES = {"timestep": ("int64", (2,), 1000)}
DIFFUSERS = [
    Row("unet2d", "diffusers", "UNet2DModel(sample_size=16, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, attention_head_dim=4, "
        "down_block_types=('DownBlock2D', 'AttnDownBlock2D'), up_block_types=('AttnUpBlock2D', 'UpBlock2D'))", {**image(16, 2, name="sample"), **TIMES}),
    Row("unet2d_condition", "diffusers", "UNet2DConditionModel(sample_size=16, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, "
        "cross_attention_dim=12, attention_head_dim=4, down_block_types=('DownBlock2D', 'CrossAttnDownBlock2D'), up_block_types=('CrossAttnUpBlock2D', 'UpBlock2D'))",
        {**image(16, 2, 4, name="sample"), **TIMES, "encoder_hidden_states": ("float32", (2, 5, 12))}),
    Row("vae", "diffusers", "AutoencoderKL(block_out_channels=(8, 16), norm_num_groups=4, down_block_types=('DownEncoderBlock2D',) * 2, "
        "up_block_types=('UpDecoderBlock2D',) * 2, latent_channels=4)", image(16, 2, name="sample")),
    Row("dit", "diffusers", "DiTTransformer2DModel(num_attention_heads=4, attention_head_dim=8, in_channels=4, num_layers=2, sample_size=8, norm_num_groups=4)",
        {**image(8, 2, 4, name="hidden_states"), **TIMES, "class_labels": ("int64", (2,), 1000)}),
]


# ---- own: torch_own.py, 20 ----

def own(cls, inputs, small=True, **options):
    return Row(cls, "own", f"{cls}({', '.join(f'{k}={v!r}' for k, v in options.items())})", inputs, small)


SEQUENCE = {"x": ("float32", (8, 7, 6))}
OWN = [
    own("Generator", {"z": ("float32", (8, 16, 1, 1))}), own("Discriminator", image(32)), own("DStep", image(32, name="image")), own("GStep", {"z": ("float32", (8, 16, 1, 1))}),
    own("UNet", image(16)), own("Lstm", SEQUENCE), own("Gru", SEQUENCE), own("Rnn", SEQUENCE), own("SpectralNorm", image(8)), own("WeightNorm", image(8)),
    own("Transformer", {"source": ("float32", (8, 7, 16)), "target": ("float32", (8, 5, 16))}), own("Indexing", SEQUENCE), own("InPlaceByMask", SEQUENCE, small=False),
    own("Tied", tokens(7, name="ids")), own("TeacherStudent", image(16)), own("Buffers", {"x": ("float32", (8, 6))}),
    own("Losses", {"x": ("float32", (8, 5)), "y": ("float32", (8, 5)), "label": ("int64", (8,), 5)}), own("Activations", {"x": ("float32", (8, 12))}),
    own("Norms", image(8, channels=8)), own("Scatter", {"x": ("float32", (8, 6)), "i": ("int64", (8, 3), 6)}, small=False),
]

ROWS = [*TORCHVISION, *TIMM, *TRANSFORMERS, *DIFFUSERS, *OWN]
MODULES = {"torchvision": "torchvision", "timm": "timm", "transformers": "transformers", "diffusers": "diffusers", "own": "torch_own"}


def row(name):
    return next(r for r in ROWS if r.name == name)


def missing(rows=ROWS):
    """The libraries of these rows that are not here, or of another version: {library: what is here}."""
    from importlib.metadata import PackageNotFoundError, version
    found = {}
    for library in sorted({"torch", *(r.library for r in rows)} - {"own"}):
        try:
            here = version(library)
        except PackageNotFoundError:
            here = "not here"
        if here.split("+")[0] != VERSIONS[library]:
            found[library] = here
    return found


class Names(dict):
    """The names of a library as globals, each imported when it is used."""

    def __init__(self, library):
        super().__init__()
        self.library = library

    def __missing__(self, name):
        try:
            return getattr(self.library, name)
        except AttributeError:
            raise KeyError(name) from None


def make(r):
    """The module of a row, in training mode, without dropout: seeded by the row's number."""
    import torch
    torch.manual_seed(ROWS.index(r))
    library = importlib.import_module(MODULES[r.library])
    module = eval(r.make, Names(library)).train()
    for part in module.modules():
        for name in ("p", "drop_prob", "dropout", "attention_dropout", "attn_drop_prob", "layerdrop", "encoder_layerdrop", "decoder_layerdrop", "hidden_dropout",
                     "activation_dropout", "dropout_prob"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)
    return module


def batch(r, seed=0):
    """Inputs of a row: {name: tensor}."""
    import torch
    made = {}
    for i, (name, (dtype, shape, *limit)) in enumerate(r.inputs.items()):
        of = torch.Generator().manual_seed(1000 * ROWS.index(r) + 10 * seed + i)
        made[name] = torch.randint(limit[0], shape, generator=of) if limit else torch.randn(shape, generator=of).to(getattr(torch, dtype))
    return made
