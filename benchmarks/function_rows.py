"""The functions that `functions.py` measures, each with what makes its arguments at three sizes."""

# ruff: noqa: E501 (one row is one line: the table is read by columns)
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

Make = Callable[[int], tuple[Any, ...]]
"""(0: tiny, 1: usual, 2: large) -> arguments"""


def f32(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def f64(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def ints(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape)


def spd(n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    x = torch.randn(n, n, dtype=dtype)
    return x @ x.T + n * torch.eye(n, dtype=dtype)


def _vector(n: int) -> int:
    return (64, 10_000, 1_000_000)[n]


def _square(n: int) -> int:
    return (4, 64, 256)[n]


def _rows(n: int) -> tuple[int, int]:
    return ((4, 16), (64, 1000), (512, 2048))[n]


def _image(n: int) -> tuple[int, int, int, int]:
    return ((1, 4, 8, 8), (4, 16, 32, 32), (8, 32, 64, 64))[n]


def vector(n: int) -> tuple[torch.Tensor]:
    return (f32(_vector(n)),)


def square(n: int) -> tuple[torch.Tensor]:
    return (f32(_square(n), _square(n)),)


def rows(n: int) -> tuple[torch.Tensor]:
    return (f32(*_rows(n)),)


def two_rows(n: int) -> tuple[torch.Tensor, ...]:
    return f32(*_rows(n)), f32(*_rows(n))


def image(n: int) -> tuple[torch.Tensor]:
    return (f32(*_image(n)),)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Make]] = {
    # ------------------------------------------------------------------- left to a library so far
    "bincount": (torch.bincount, lambda n: (ints(100, _vector(n)),)),
    "bincount minlength": (lambda x: torch.bincount(x, minlength=100), lambda n: (ints(100, _vector(n)),)),
    "bincount weights": (torch.bincount, lambda n: (ints(100, _vector(n)), f32(_vector(n)))),
    "eigh": (torch.linalg.eigh, lambda n: (spd(_square(n)),)),
    "eigh f64": (torch.linalg.eigh, lambda n: (spd(_square(n), torch.float64),)),
    "eigvalsh": (torch.linalg.eigvalsh, lambda n: (spd(_square(n)),)),
    "eig": (torch.linalg.eig, square),
    "svd": (lambda x: torch.linalg.svd(x, full_matrices=False), square),
    "svd f64": (lambda x: torch.linalg.svd(x, full_matrices=False), lambda n: (f64(_square(n), _square(n)),)),
    "svdvals": (torch.linalg.svdvals, square),
    "lstsq": (lambda a, b: torch.linalg.lstsq(a, b).solution, lambda n: (f32(2 * _square(n), _square(n)), f32(2 * _square(n), 3))),
    "lstsq f64": (lambda a, b: torch.linalg.lstsq(a, b).solution, lambda n: (f64(2 * _square(n), _square(n)), f64(2 * _square(n), 3))),
    "matrix_exp": (torch.matrix_exp, square),
    "matrix_exp f64": (torch.matrix_exp, lambda n: (f64(_square(n), _square(n)),)),
    "matrix_exp small": (torch.matrix_exp, lambda n: (f32(_square(n), _square(n)) * 0.01,)),
    "matrix_exp batch": (torch.matrix_exp, lambda n: (f32((2, 64, 256)[n], 8, 8),)),
    "pinverse": (torch.linalg.pinv, square),
    "matrix_rank": (torch.linalg.matrix_rank, square),
    "cond": (torch.linalg.cond, square),
    "logdet": (torch.logdet, lambda n: (spd(_square(n)),)),
    "norm nuc": (lambda x: torch.linalg.matrix_norm(x, "nuc"), square),
    # ----------------------------------------------------------------------------------- transforms
    "rfft 512": (torch.fft.rfft, lambda n: (f32((1, 64, 1024)[n], 512),)),
    "rfft 512 f64": (torch.fft.rfft, lambda n: (f64((1, 64, 1024)[n], 512),)),
    "rfft 400": (torch.fft.rfft, lambda n: (f32((1, 64, 1024)[n], 400),)),
    "rfft 8192": (torch.fft.rfft, lambda n: (f32((1, 16, 128)[n], 8192),)),
    "irfft 512": (lambda x: torch.fft.irfft(torch.complex(x, x)), lambda n: (f32((1, 64, 1024)[n], 257),)),
    "fft 512": (lambda x: torch.fft.fft(torch.complex(x, x)), lambda n: (f32((1, 64, 1024)[n], 512),)),
    "fft2": (torch.fft.fft2, lambda n: (f32((1, 4, 8)[n], (16, 64, 256)[n], (16, 64, 256)[n]),)),
    "rfft2": (torch.fft.rfft2, lambda n: (f32((1, 4, 8)[n], (16, 64, 256)[n], (16, 64, 256)[n]),)),
    "stft": (lambda x, w: torch.stft(x, 400, 160, window=w, return_complex=True), lambda n: (f32(1, (1600, 16000, 160000)[n]), torch.hann_window(400))),
    "istft": (lambda re, im, w: torch.istft(torch.complex(re, im), 400, 160, window=w), lambda n: (f32(1, 201, (11, 101, 1001)[n]), f32(1, 201, (11, 101, 1001)[n]), torch.hann_window(400))),
    # --------------------------------------------------------------------------- order and searches
    "searchsorted": (torch.searchsorted, lambda n: (f32(_vector(n)).sort()[0], f32(_vector(n)))),
    "searchsorted f64": (torch.searchsorted, lambda n: (f64(_vector(n)).sort()[0], f64(_vector(n)))),
    "searchsorted ints": (torch.searchsorted, lambda n: (ints(1000, _vector(n)).sort()[0], ints(1000, _vector(n)))),
    "searchsorted rows": (torch.searchsorted, lambda n: (f32(*_rows(n)).sort()[0], f32(_rows(n)[0], 64))),
    "searchsorted few": (torch.searchsorted, lambda n: (f32(32).sort()[0], f32(_vector(n)))),
    "bucketize": (torch.bucketize, lambda n: (f32(_vector(n)), f32(100).sort()[0])),
    "topk 10": (lambda x: x.topk(10), rows),
    "topk 10 f64": (lambda x: x.topk(10), lambda n: (f64(*_rows(n)),)),
    "topk 10 smallest": (lambda x: x.topk(10, largest=False), rows),
    "topk 1": (lambda x: x.topk(1), rows),
    "topk vector 50": (lambda x: x.topk(50), vector),
    "topk axis 0": (lambda x: x.topk(4, dim=0), rows),
    "sort": (torch.sort, rows),
    "sort f64": (torch.sort, lambda n: (f64(*_rows(n)),)),
    "sort ints": (torch.sort, lambda n: (ints(1000, *_rows(n)),)),
    "sort vector": (torch.sort, vector),
    "sort axis 0": (lambda x: x.sort(0), rows),
    "argsort descending": (lambda x: x.argsort(descending=True), rows),
    "msort": (torch.msort, rows),
    "median": (torch.median, vector),
    "median f64": (torch.median, lambda n: (f64(_vector(n)),)),
    "median rows": (lambda x: x.median(-1), rows),
    "nanmedian": (torch.nanmedian, vector),
    "kthvalue": (lambda x: x.kthvalue(3), rows),
    "quantile": (lambda x: x.quantile(0.3), lambda n: (f32((64, 10_000, 200_000)[n]),)),
    "quantile rows": (lambda x: x.quantile(torch.tensor([0.1, 0.5, 0.9]), dim=-1), rows),
    "nanquantile": (lambda x: x.nanquantile(0.3, dim=-1), rows),
    "mode": (lambda x: x.mode(-1), lambda n: (ints(10, *_rows(n)),)),
    "unique": (torch.unique, lambda n: (ints(1000, _vector(n)),)),
    "unique inverse": (lambda x: torch.unique(x, return_inverse=True, return_counts=True), lambda n: (ints(1000, _vector(n)),)),
    "unique_consecutive": (torch.unique_consecutive, lambda n: (ints(3, _vector(n)),)),
    "nonzero": (torch.nonzero, lambda n: (f32(_vector(n)).relu(),)),
    "masked_select": (lambda x: x[x > 0], vector),
    "argwhere": (torch.argwhere, lambda n: (f32(*_rows(n)).relu(),)),
    "isin": (torch.isin, lambda n: (ints(1000, _vector(n)), ints(1000, 20))),
    "isin many": (torch.isin, lambda n: (ints(100000, _vector(n)), ints(100000, (10, 1000, 10000)[n]))),
    "histc": (lambda x: x.histc(50, -3, 3), vector),
    "histogram": (lambda x: torch.histogram(x, 50)[0], vector),
    "cummax": (lambda x: x.cummax(-1), rows),
    "cummin axis 0": (lambda x: x.cummin(0), rows),
    "logcumsumexp": (lambda x: x.logcumsumexp(-1), rows),
    "cumprod": (lambda x: x.cumprod(-1), rows),
    "cumsum axis 0": (lambda x: x.cumsum(0), rows),
    "argmax": (lambda x: x.argmax(-1), rows),
    "argmin all": (torch.argmin, vector),
    "aminmax": (torch.aminmax, vector),
    "max axis 0": (lambda x: x.max(0), rows),
    # ------------------------------------------------------------------------------ places, indices
    "diagonal": (lambda x: x.diagonal(), square),
    "diagonal batch": (lambda x: x.diagonal(dim1=-2, dim2=-1), lambda n: (f32((2, 32, 256)[n], _square(n), _square(n)),)),
    "diag_embed": (torch.diag_embed, lambda n: (f32((2, 32, 64)[n], _square(n)),)),
    "diag": (torch.diag, lambda n: (f32(_square(n) * 4),)),
    "trace": (torch.trace, square),
    "tril": (torch.tril, lambda n: (f32(_square(n) * 4, _square(n) * 4),)),
    "gather": (lambda x, i: x.gather(1, i), lambda n: (f32(*_rows(n)), ints(_rows(n)[1], *_rows(n)))),
    "take_along_dim": (lambda x, i: x.take_along_dim(i, 0), lambda n: (f32(*_rows(n)), ints(_rows(n)[0], *_rows(n)))),
    "take": (torch.take, lambda n: (f32(*_rows(n)), ints(_rows(n)[1], _vector(n)))),
    "put": (lambda x, i, v: x.put(i, v), lambda n: (f32(_vector(n)), torch.randperm(_vector(n))[: _vector(n) // 2], f32(_vector(n) // 2))),
    "put accumulate": (lambda x, i, v: x.put(i, v, accumulate=True), lambda n: (f32(_vector(n)), ints(_vector(n), _vector(n)), f32(_vector(n)))),
    "index_select": (lambda x, i: x.index_select(0, i), lambda n: (f32(*_rows(n)), ints(_rows(n)[0], 2 * _rows(n)[0]))),
    "index_select axis 1": (lambda x, i: x.index_select(1, i), lambda n: (f32(*_rows(n)), ints(_rows(n)[1], _rows(n)[1]))),
    "index_add": (lambda x, i, v: x.index_add(0, i, v), lambda n: (f32(*_rows(n)), ints(_rows(n)[0], 2 * _rows(n)[0]), f32(2 * _rows(n)[0], _rows(n)[1]))),
    "index_copy": (lambda x, i, v: x.index_copy(0, i, v), lambda n: (f32(*_rows(n)), torch.randperm(_rows(n)[0]), f32(*_rows(n)))),
    "index_fill": (lambda x, i: x.index_fill(0, i, 2.0), lambda n: (f32(*_rows(n)), ints(_rows(n)[0], _rows(n)[0] // 2))),
    "index_reduce amax": (lambda x, i, v: x.index_reduce(0, i, v, "amax"), lambda n: (f32(*_rows(n)), ints(_rows(n)[0], 2 * _rows(n)[0]), f32(2 * _rows(n)[0], _rows(n)[1]))),
    "index_reduce mean": (lambda x, i, v: x.index_reduce(0, i, v, "mean"), lambda n: (f32(*_rows(n)), ints(_rows(n)[0], 2 * _rows(n)[0]), f32(2 * _rows(n)[0], _rows(n)[1]))),
    "scatter_add": (lambda x, i, v: x.scatter_add(0, i, v), lambda n: (f32(*_rows(n)), ints(_rows(n)[0], *_rows(n)), f32(*_rows(n)))),
    "scatter_add vector": (lambda x, i, v: x.scatter_add(0, i, v), lambda n: (f32(100), ints(100, _vector(n)), f32(_vector(n)))),
    "scatter_reduce amin": (lambda x, i, v: x.scatter_reduce(1, i, v, "amin"), lambda n: (f32(*_rows(n)), ints(_rows(n)[1], *_rows(n)), f32(*_rows(n)))),
    "segment_reduce": (lambda x, c: torch.segment_reduce(x, "sum", lengths=c), lambda n: (f32(_rows(n)[0] * 4, _rows(n)[1]), torch.full((_rows(n)[0],), 4))),
    "masked_fill": (lambda x, m: x.masked_fill(m, 0.0), lambda n: (f32(*_rows(n)), f32(*_rows(n)) > 0)),
    "masked_scatter": (lambda x, m, v: x.masked_scatter(m, v), lambda n: (f32(*_rows(n)), f32(*_rows(n)) > 0, f32(*_rows(n)))),
    "where": (torch.where, lambda n: (f32(*_rows(n)) > 0, f32(*_rows(n)), f32(*_rows(n)))),
    "index two": (lambda x, i, j: x[i, j], lambda n: (f32(*_rows(n)), ints(_rows(n)[0], _vector(n)), ints(_rows(n)[1], _vector(n)))),
    "index_put": (lambda x, i, v: x.index_put((i,), v), lambda n: (f32(*_rows(n)), torch.randperm(_rows(n)[0]), f32(*_rows(n)))),
    "select_scatter": (lambda x, v: x.select_scatter(v, 0, 1), lambda n: (f32(*_rows(n)), f32(_rows(n)[1]))),
    "slice_scatter": (lambda x, v: x.slice_scatter(v, 1, 0, _rows(0)[1]), lambda n: (f32(*_rows(n)), f32(_rows(n)[0], 16))),
    "one_hot": (lambda x: F.one_hot(x, 50), lambda n: (ints(50, (16, 1000, 20000)[n]),)),
    "embedding": (F.embedding, lambda n: (ints(1000, (8, 512, 8192)[n]), f32(1000, 128))),
    # ------------------------------------------------------------------------------- moving memory
    "flip": (lambda x: x.flip(-1), rows),
    "flip axis 0": (lambda x: x.flip(0), rows),
    "rot90": (torch.rot90, lambda n: (f32(_square(n) * 4, _square(n) * 4),)),
    "roll": (lambda x: x.roll((3, 5), (0, 1)), rows),
    "roll flat": (lambda x: x.roll(7), rows),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, dim=1), rows),
    "repeat_interleave counts": (lambda x, c: x.repeat_interleave(c, dim=0, output_size=2 * x.shape[0]), lambda n: (f32(*_rows(n)), torch.full((_rows(n)[0],), 2))),
    "tile": (lambda x: x.tile(2, 3), rows),
    "transpose copy": (lambda x: x.t().contiguous(), lambda n: (f32(_square(n) * 4, _square(n) * 4),)),
    "permute copy": (lambda x: x.permute(0, 2, 3, 1).contiguous(), image),
    "cat": (lambda a, b: torch.cat([a, b], 1), two_rows),
    "stack last": (lambda a, b: torch.stack([a, b], -1), two_rows),
    "block_diag": (torch.block_diag, lambda n: (f32(_square(n), _square(n)), f32(_square(n), 8), f32(3, _square(n)))),
    "cartesian_prod": (torch.cartesian_prod, lambda n: (f32((4, 100, 1000)[n]), f32((4, 100, 1000)[n]))),
    "combinations": (torch.combinations, lambda n: (f32((4, 64, 500)[n]),)),
    "meshgrid": (lambda a, b: [t.contiguous() for t in torch.meshgrid(a, b, indexing="ij")], lambda n: (f32((4, 100, 1000)[n]), f32((4, 100, 1000)[n]))),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), image),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), image),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), image),
    "pad constant": (lambda x: F.pad(x, (1, 2, 3, 4)), image),
    "pad reflect": (lambda x: F.pad(x, (2, 2, 2, 2), mode="reflect"), image),
    "pad circular": (lambda x: F.pad(x, (2, 2, 2, 2), mode="circular"), image),
    "unfold": (lambda x: x.unfold(1, 8, 4), rows),
    "F.unfold": (lambda x: F.unfold(x, 3, padding=1), image),
    "F.fold": (lambda x: F.fold(x, (16, 16), 3, padding=1), lambda n: (f32((1, 4, 32)[n], 9 * (2, 16, 32)[n], 256),)),
    # ------------------------------------------------------------------------------------- algebra
    "cdist": (torch.cdist, lambda n: (f32((4, 100, 1000)[n], 64), f32((4, 100, 1000)[n], 64))),
    "cdist p1": (lambda a, b: torch.cdist(a, b, p=1.0), lambda n: (f32((4, 100, 1000)[n], 16), f32((4, 100, 1000)[n], 16))),
    "cdist f64": (torch.cdist, lambda n: (f64((4, 20, 1000)[n], 8), f64((4, 20, 1000)[n], 8))),
    "pdist": (F.pdist, lambda n: (f32((4, 100, 500)[n], 32),)),
    "renorm": (lambda x: x.renorm(2, 0, 1.0), rows),
    "trapezoid": (torch.trapezoid, two_rows),
    "cumulative_trapezoid": (torch.cumulative_trapezoid, rows),
    "cross": (torch.linalg.cross, lambda n: (f32((8, 1000, 100_000)[n], 3), f32((8, 1000, 100_000)[n], 3))),
    "kron": (torch.kron, lambda n: (f32((2, 16, 32)[n], (2, 16, 32)[n]), f32((2, 16, 32)[n], (2, 16, 32)[n]))),
    "tensordot": (lambda a, b: torch.tensordot(a, b, dims=([1, 2], [0, 1])), lambda n: (f32((2, 32, 128)[n], (2, 16, 32)[n], 8), f32((2, 16, 32)[n], 8, (4, 64, 128)[n]))),
    "einsum bij,bjk": (lambda a, b: torch.einsum("bij,bjk->bik", a, b), lambda n: (f32((2, 16, 64)[n], 32, 32), f32((2, 16, 64)[n], 32, 32))),
    "einsum outer": (lambda a, b: torch.einsum("bi,bj->bij", a, b), lambda n: (f32((2, 64, 512)[n], 64), f32((2, 64, 512)[n], 64))),
    "cov": (torch.cov, lambda n: (f32((3, 32, 128)[n], (16, 500, 4000)[n]),)),
    "corrcoef": (torch.corrcoef, lambda n: (f32((3, 32, 128)[n], (16, 500, 4000)[n]),)),
    "vander": (lambda x: torch.vander(x, 8), lambda n: (f32((8, 1000, 50_000)[n]),)),
    "addcdiv": (lambda a, b: torch.addcdiv(a, b, b * b + 1.0), two_rows),
    "lerp": (lambda a, b: torch.lerp(a, b, 0.3), two_rows),
    "matrix_power": (lambda x: torch.linalg.matrix_power(x, 5), square),
    "cholesky": (torch.linalg.cholesky, lambda n: (spd(_square(n)),)),
    "cholesky_solve": (torch.cholesky_solve, lambda n: (f32(_square(n), 4), spd(_square(n)))),
    "solve": (torch.linalg.solve, lambda n: (spd(_square(n)), f32(_square(n), 4))),
    "inv": (torch.linalg.inv, lambda n: (spd(_square(n)),)),
    "det": (torch.linalg.det, lambda n: (spd(_square(n)) / _square(n),)),
    "qr": (torch.linalg.qr, lambda n: (f32(2 * _square(n), _square(n)),)),
    "lu": (torch.linalg.lu, square),
    "lu_factor": (torch.linalg.lu_factor, square),
    "householder_product": (torch.linalg.householder_product, lambda n: (f32(_square(n), _square(n)), f32(_square(n)))),
    # ----------------------------------------------------------------------------------- pointwise
    "erfinv": (lambda x: torch.erfinv(x.tanh()), rows),
    "lgamma": (lambda x: torch.lgamma(x.abs()), rows),
    "digamma": (lambda x: torch.digamma(x.abs() + 0.1), rows),
    "xlogy": (lambda a, b: torch.xlogy(a, b.abs()), two_rows),
    "sinc": (torch.sinc, rows),
    "i0": (torch.i0, rows),
    "atan2": (torch.atan2, two_rows),
    "hypot": (torch.hypot, two_rows),
    "fmod": (torch.fmod, two_rows),
    "remainder": (torch.remainder, two_rows),
    "remainder ints": (torch.remainder, lambda n: (ints(1000, *_rows(n)), ints(100, *_rows(n)) + 1)),
    "floor_divide ints": (torch.floor_divide, lambda n: (ints(1000, *_rows(n)), ints(100, *_rows(n)) + 1)),
    "pow": (lambda a, b: torch.pow(a.abs(), b), two_rows),
    "pow 3": (lambda a: a**3, rows),
    "gcd": (torch.gcd, lambda n: (ints(1000, *_rows(n)), ints(100, *_rows(n)) + 1)),
    "nextafter": (torch.nextafter, two_rows),
    "copysign": (torch.copysign, two_rows),
    "frexp": (torch.frexp, rows),
    "ldexp": (torch.ldexp, lambda n: (f32(*_rows(n)), ints(8, *_rows(n)))),
    "logaddexp": (torch.logaddexp, two_rows),
    "nan_to_num": (torch.nan_to_num, rows),
    "logit": (lambda x: torch.logit(x, 1e-6), lambda n: (torch.rand(*_rows(n)),)),
    "bitwise_and": (torch.bitwise_and, lambda n: (ints(1000, *_rows(n)), ints(100, *_rows(n)))),
    "polar": (lambda a, b: torch.view_as_real(torch.polar(a.abs(), b)), two_rows),
    "round decimals": (lambda x: torch.round(x, decimals=2), rows),
    "heaviside": (torch.heaviside, two_rows),
    "sin f64": (torch.sin, lambda n: (f64(*_rows(n)),)),
    "tan": (torch.tan, rows),
    "acosh": (lambda x: torch.acosh(x.abs() + 1), rows),
    # ---------------------------------------------------------------------------------- reductions
    "std": (lambda x: x.std(-1), rows),
    "var_mean all": (torch.var_mean, vector),
    "logsumexp": (lambda x: x.logsumexp(-1), rows),
    "norm p3": (lambda x: x.norm(3, -1), rows),
    "prod": (lambda x: x.prod(-1), rows),
    "sum axis 0": (lambda x: x.sum(0), rows),
    "sum all": (torch.sum, vector),
    "mean f64": (torch.mean, lambda n: (f64(_vector(n)),)),
    "nansum": (lambda x: x.nansum(-1), rows),
    "nanmean": (lambda x: x.nanmean(-1), rows),
    "count_nonzero": (lambda x: torch.count_nonzero(x, -1), rows),
    "any": (lambda x: (x > 3).any(-1), rows),
    "all": (torch.all, lambda n: (torch.ones(_vector(n), dtype=torch.bool),)),
    "allclose like": (lambda a, b: torch.isclose(a, b).all(), two_rows),
    "equal ints sum": (lambda a, b: (a == b).sum(), lambda n: (ints(10, _vector(n)), ints(10, _vector(n)))),
    "diff": (torch.diff, rows),
    "gradient": (lambda x: torch.gradient(x, dim=-1)[0], rows),
    # -------------------------------------------------------------------------------- of networks
    "local_response_norm": (lambda x: F.local_response_norm(x, 5), image),
    "lp_pool2d": (lambda x: F.lp_pool2d(x, 2.0, 2), image),
    "lp_pool2d p3": (lambda x: F.lp_pool2d(x, 3.0, 3, 2), image),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), image),
    "max_pool2d indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), image),
    "max_unpool2d": (lambda x, i: F.max_unpool2d(x, i, 2), lambda n: F.max_pool2d(f32(*_image(n)), 2, return_indices=True)),
    "fractional_max_pool2d": (lambda x, s: F.fractional_max_pool2d(x, 2, output_ratio=(0.6, 0.6), _random_samples=s), lambda n: (f32(*_image(n)), torch.rand(*_image(n)[:2], 2))),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 5), image),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 5), image),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), image),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), image),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 3, 2), lambda n: (f32(2, *_rows(n)),)),
    "pairwise_distance": (F.pairwise_distance, two_rows),
    "cosine_similarity": (F.cosine_similarity, two_rows),
    "cosine_embedding_loss": (lambda a, b: F.cosine_embedding_loss(a, b, torch.ones(a.shape[0])), two_rows),
    "multi_margin_loss": (F.multi_margin_loss, lambda n: (f32(*_rows(n)), ints(_rows(n)[1], _rows(n)[0]))),
    "multilabel_margin_loss": (F.multilabel_margin_loss, lambda n: (f32((4, 64, 256)[n], 20), torch.cat([ints(20, (4, 64, 256)[n], 3), torch.full(((4, 64, 256)[n], 17), -1)], 1))),
    "multilabel_soft_margin_loss": (F.multilabel_soft_margin_loss, lambda n: (f32(*_rows(n)), torch.rand(*_rows(n)))),
    "triplet_margin_loss": (F.triplet_margin_loss, lambda n: (f32(*_rows(n)), f32(*_rows(n)), f32(*_rows(n)))),
    "margin_ranking_loss": (lambda a, b: F.margin_ranking_loss(a, b, torch.ones_like(a)), two_rows),
    "hinge_embedding_loss": (lambda a, b: F.hinge_embedding_loss(a, b.sign()), two_rows),
    "poisson_nll_loss": (lambda a, b: F.poisson_nll_loss(a, b.abs()), two_rows),
    "gaussian_nll_loss": (lambda a, b: F.gaussian_nll_loss(a, b, b * b + 0.1), two_rows),
    "kl_div": (lambda a, b: F.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean"), two_rows),
    "huber_loss": (F.huber_loss, two_rows),
    "smooth_l1_loss": (F.smooth_l1_loss, two_rows),
    "cross_entropy": (F.cross_entropy, lambda n: (f32(*_rows(n)), ints(_rows(n)[1], _rows(n)[0]))),
    "nll_loss2d": (lambda x, t: F.nll_loss(x.log_softmax(1), t), lambda n: (f32(*_image(n)), ints(4, _image(n)[0], *_image(n)[2:]))),
    "bce_with_logits": (lambda a, b: F.binary_cross_entropy_with_logits(a, b.sigmoid()), two_rows),
    "gumbel_softmax": (lambda x, u: (x - (-u.log()).log()).softmax(-1), lambda n: (f32(*_rows(n)), torch.rand(*_rows(n)) + 1e-6)),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), lambda n: (f32(*_image(n)), f32(_image(n)[0], *_image(n)[2:], 2).tanh())),
    "grid_sample border": (lambda x, g: F.grid_sample(x, g, align_corners=True, padding_mode="border"), lambda n: (f32(*_image(n)), f32(_image(n)[0], *_image(n)[2:], 2).tanh())),
    "grid_sample 3d": (lambda x, g: F.grid_sample(x, g, align_corners=False), lambda n: (f32(1, (1, 2, 4)[n], (4, 16, 32)[n], (4, 16, 32)[n], (4, 16, 32)[n]), f32(1, (4, 16, 32)[n], (4, 16, 32)[n], (4, 16, 32)[n], 3).tanh())),
    "affine_grid": (lambda t: F.affine_grid(t, (t.shape[0], 3, 64, 64), align_corners=False), lambda n: (f32((1, 4, 32)[n], 2, 3),)),
    "interpolate trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), lambda n: (f32(1, (1, 2, 4)[n], *((4, 12, 24)[n],) * 3),)),
    "interpolate linear": (lambda x: F.interpolate(x, scale_factor=2, mode="linear"), lambda n: (f32(2, *_rows(n)),)),
    "interpolate area": (lambda x: F.interpolate(x, size=(7, 7), mode="area"), image),
    "glu": (F.glu, rows),
    "prelu": (F.prelu, lambda n: (f32(*_image(n)), f32(_image(n)[1]))),
    "rrelu eval": (F.rrelu, rows),
    "hardshrink": (F.hardshrink, rows),
    "softsign": (F.softsign, rows),
    "mish": (F.mish, rows),
    "celu": (F.celu, rows),
    "threshold": (lambda x: F.threshold(x, 0.1, 20.0), rows),
    "normalize": (F.normalize, rows),
    "instance_norm": (F.instance_norm, image),
    "group_norm": (lambda x: F.group_norm(x, 2), image),
    "rms_norm": (lambda x: F.rms_norm(x, (x.shape[-1],)), rows),
    "softmin": (lambda x: F.softmin(x, -1), rows),
    "log_softmax axis 0": (lambda x: x.log_softmax(0), rows),
    "softmax f64": (lambda x: x.softmax(-1), lambda n: (f64(*_rows(n)),)),
    "bilinear": (F.bilinear, lambda n: (f32((4, 64, 512)[n], 16), f32((4, 64, 512)[n], 16), f32(8, 16, 16))),
    "embedding_bag": (lambda i, w: F.embedding_bag(i, w, mode="mean"), lambda n: (ints(1000, (4, 64, 1024)[n], 16), f32(1000, 64))),
    "ctc_loss": (lambda x, t: F.ctc_loss(x.log_softmax(-1), t, torch.full((x.shape[1],), x.shape[0]), torch.full((x.shape[1],), t.shape[1])), lambda n: (f32((8, 50, 200)[n], (1, 4, 16)[n], 20), ints(19, (1, 4, 16)[n], (2, 10, 20)[n]) + 1)),
}  # fmt: skip
