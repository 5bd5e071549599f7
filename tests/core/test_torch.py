"""PyTorch: models, and tensors on the CPU with what they share."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from late import library
from nbckpt.core.checkpoint import Checkpoint
from nbckpt.errors import NotFoundError, UsageError
from nbckpt.integrations.torch import TorchCheckpoint

torch = library("torch", reason="needs PyTorch")


def back(data: dict[Any, Any], folder: Path) -> dict[Any, Any]:
    """Return a dict through a folder, where large memory is mapped."""
    return Checkpoint.from_directory(Checkpoint.from_dict(data).to_directory(folder / "made")).to_dict()


def net() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 300), torch.nn.BatchNorm1d(300), torch.nn.Linear(300, 2))


def alike(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("form", ["module", "state"])
def test_a_model_is_restored_from_every_form(tmp_path: Path, form: str) -> None:
    model, fresh = net(), net()
    torch.nn.init.ones_(fresh[0].weight)
    made = TorchCheckpoint.from_model(model if form == "module" else model.state_dict(), epoch=3)
    uri = made.to_uri(f"memory://{uuid.uuid4().hex}")
    for restored in (Checkpoint.from_directory(made.to_directory(tmp_path / "m")), Checkpoint.from_uri(uri)):
        assert isinstance(restored, TorchCheckpoint)
        assert restored.get_model(fresh) is fresh
        assert alike(fresh.state_dict(), model.state_dict())
        assert restored.to_dict()["epoch"] == 3


def test_a_saved_module_is_restored_without_a_model() -> None:
    model = net().eval()
    restored = TorchCheckpoint.from_model(model).get_model()
    x = torch.ones(3, 4)
    assert torch.equal(restored(x), model(x))


@pytest.mark.slow
def test_a_restored_model_trains() -> None:
    model = TorchCheckpoint.from_model(net()).get_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    assert not alike(before, model.state_dict())


def test_a_saved_state_dict_needs_a_model() -> None:
    with pytest.raises(UsageError, match="holds a state dict: give the model"):
        TorchCheckpoint.from_model(net().state_dict()).get_model()


def test_a_state_that_does_not_fit_is_explained() -> None:
    with pytest.raises(UsageError, match="does not fit the model"):
        TorchCheckpoint.from_model(net()).get_model(torch.nn.Linear(1, 1))


def test_a_value_that_is_not_a_model_is_refused() -> None:
    with pytest.raises(UsageError, match="not list"):
        TorchCheckpoint.from_model([])
    with pytest.raises(NotFoundError, match="holds no model"):
        TorchCheckpoint.from_dict({}).get_model()


@pytest.mark.parametrize("size", [0, 1, 3, 100_000])
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "bfloat16", "int8", "int64", "bool", "complex64"]
)
def test_a_tensor_keeps_its_type_and_values(tmp_path: Path, dtype: str, size: int) -> None:
    tensor = torch.arange(size).to(getattr(torch, dtype))
    restored = back({"t": tensor}, tmp_path)["t"]
    assert restored.dtype == tensor.dtype
    assert torch.equal(restored, tensor)
    restored.fill_(1)  # it is writable


def test_tensors_that_share_memory_share_it_again(tmp_path: Path) -> None:
    whole = torch.arange(50_000.0).reshape(100, 500)
    restored = back({"whole": whole, "row": whole[3], "column": whole[:, 7], "turned": whole.T}, tmp_path)
    restored["whole"].zero_()
    assert not any(tensor.any() for tensor in restored.values())
    assert restored["turned"].shape == (500, 100)


@pytest.mark.parametrize("side", [4, 300])
def test_strides_are_kept(tmp_path: Path, side: int) -> None:
    tensor = torch.arange(float(side * side)).reshape(side, side)
    views = {"t": tensor.T, "step": tensor[::2, 1::3], "wide": tensor[0].expand(5, side), "one": tensor[1, 1]}
    restored = back(views, tmp_path)
    for name, view in views.items():
        assert torch.equal(restored[name], view)
        assert restored[name].stride() == view.stride()


def test_tensors_keep_requires_grad_and_parameters(tmp_path: Path) -> None:
    leaf = torch.ones(3, requires_grad=True)
    frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)
    weight = torch.nn.Parameter(torch.ones(50_000))
    restored = back({"leaf": leaf, "frozen": frozen, "weight": weight, "again": weight}, tmp_path)
    assert [restored[name].requires_grad for name in ("leaf", "frozen", "weight")] == [True, False, True]
    assert [type(restored[name]) for name in ("leaf", "frozen")] == [torch.Tensor, torch.nn.Parameter]
    assert restored["again"] is restored["weight"]


def test_tied_weights_stay_tied(tmp_path: Path) -> None:
    model = torch.nn.ModuleList([torch.nn.Linear(300, 300), torch.nn.Linear(300, 300)])
    model[1].weight = model[0].weight
    restored = back({"model": model}, tmp_path)["model"]
    assert restored[0].weight is restored[1].weight


@pytest.mark.slow
def test_an_optimizer_is_restored_with_its_parameters(tmp_path: Path) -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    restored = back({"model": model, "optimizer": optimizer}, tmp_path)
    held = restored["optimizer"].param_groups[0]["params"]
    assert all(one is other for one, other in zip(held, restored["model"].parameters(), strict=True))
    steps = [state["step"].item() for state in restored["optimizer"].state.values()]
    assert steps == [1.0] * len(held)


@pytest.mark.filterwarnings("ignore:.*(quantize|TypedStorage):UserWarning")  # deprecated, yet still met
@pytest.mark.parametrize("kind", ["sparse", "quantized", "conj", "neg", "meta"])
def test_unusual_tensors_are_pickled_by_torch(tmp_path: Path, kind: str) -> None:
    plain = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    tensors = {
        "sparse": lambda: plain.to_sparse(),
        "quantized": lambda: torch.quantize_per_tensor(plain, 0.1, 0, torch.qint8),
        "conj": lambda: torch.tensor([1 + 2j]).conj(),
        "neg": lambda: torch.tensor([1 + 2j]).conj().imag,
        "meta": lambda: torch.empty(3, device="meta"),
    }
    tensor = tensors[kind]()
    restored = back({"t": tensor}, tmp_path)["t"]
    assert (restored.shape, restored.dtype, restored.layout, restored.device) == (
        tensor.shape, tensor.dtype, tensor.layout, tensor.device,
    )  # fmt: skip
    if kind != "meta":
        dense = [one.dequantize() if one.is_quantized else one.to_dense() for one in (restored, tensor)]
        assert torch.equal(*dense)
