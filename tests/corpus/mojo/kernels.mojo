# Kernels in Mojo, a shape or operation each; `mojo run -D KERNEL=add -D TARGET=sm_90a kernels.mojo` prints the PTX of one.
from std.atomic import Atomic
from std.math import exp, fma, log, rsqrt, sin, sqrt, tanh
from std.memory import AddressSpace, stack_allocation
from std.sys.defines import get_defined_string
from max.gpu import barrier, block_dim, block_idx, grid_dim, lane_id, thread_idx, warp_id
from max.gpu.host import get_gpu_target
from max.gpu.host.compile import _compile_code
from max.gpu.compute.mma import mma
from max.gpu.memory import async_copy, async_copy_commit_group, async_copy_wait_all
from max.gpu.primitives import warp

comptime Floats = Pointer[Float32, MutAnyOrigin]
comptime Doubles = Pointer[Float64, MutAnyOrigin]
comptime Halves = Pointer[Float16, MutAnyOrigin]
comptime Brains = Pointer[BFloat16, MutAnyOrigin]
comptime Integers = Pointer[Int32, MutAnyOrigin]
comptime Bytes = Pointer[UInt8, MutAnyOrigin]


def place() -> Int:
    return Int(block_idx.x * block_dim.x + thread_idx.x)


def add(a: Floats, b: Floats, n: Int):
    var i = place()
    if i < n:
        a[unsafe_offset=i] += b[unsafe_offset=i]


def reduce(a: Floats, to: Floats, n: Int):
    var shared = stack_allocation[32, DType.float32, address_space=AddressSpace.SHARED]()
    var sum = Float32(0)
    for i in range(Int(thread_idx.x), n, Int(block_dim.x)):
        sum += a[unsafe_offset=i]
    sum = warp.sum(sum)
    if lane_id() == 0:
        shared[unsafe_offset=Int(warp_id())] = sum
    barrier()
    if thread_idx.x < 32:
        to[unsafe_offset=Int(block_idx.x)] = warp.sum(shared[unsafe_offset=Int(thread_idx.x)])


def histogram(a: Bytes, bins: Integers, n: Int):
    var i = place()
    while i < n:
        _ = Atomic.fetch_add(bins.unsafe_offset(Int(a[unsafe_offset=i])), Int32(1))
        i += Int(grid_dim.x * block_dim.x)


def functions(a: Floats, b: Doubles, n: Int):
    var i = place()
    var x = a[unsafe_offset=i]
    var y = b[unsafe_offset=i]
    a[unsafe_offset=i] = exp(x) + sin(x) * rsqrt(x) + tanh(x) - log(x) + sqrt(x)
    b[unsafe_offset=i] = fma(y, y, sqrt(y)) / (exp(y) + 1)


def halves(a: Halves, b: Brains, c: Floats):
    var i = 4 * place()
    var x = a.load[width=4](i)
    var y = b.load[width=4](i)
    c.store(i, x.cast[DType.float32]() * y.cast[DType.float32]())
    a.store(i, x * x + x)
    b.store(i, y + y)


def integers(a: Integers, b: Bytes, n: Int):
    var i = place()
    var x = a[unsafe_offset=i]
    for k in range(Int(b[unsafe_offset=i])):
        x = (x >> 3) ^ (x * 5 + Int32(k)) if x & 1 else x // 7 + x % 11
    a[unsafe_offset=i] = x
    b[unsafe_offset=i] = UInt8(x & 255)


def exchange(a: Floats, b: Integers):
    var i = place()
    var x = warp.shuffle_xor(a[unsafe_offset=i], 8) + warp.shuffle_down(a[unsafe_offset=i], 1)
    a[unsafe_offset=i] = warp.max(x) + warp.prefix_sum(x)
    b[unsafe_offset=i] = warp.broadcast(b[unsafe_offset=i]) + Int32(warp.vote[DType.uint32](x > 0))


def softmax(a: Floats, to: Floats, n: Int):
    var row = Int(block_idx.x) * n
    var top = Float32.MIN
    for i in range(Int(thread_idx.x), n, 32):
        top = max(top, a[unsafe_offset = row + i])
    top = warp.max(top)
    var sum = Float32(0)
    for i in range(Int(thread_idx.x), n, 32):
        sum += exp(a[unsafe_offset = row + i] - top)
    sum = warp.sum(sum)
    for i in range(Int(thread_idx.x), n, 32):
        to[unsafe_offset = row + i] = exp(a[unsafe_offset = row + i] - top) / sum


def matmul(a: Floats, b: Floats, c: Floats, n: Int):
    comptime T = 16
    var ta = stack_allocation[T * T, DType.float32, address_space=AddressSpace.SHARED]()
    var tb = stack_allocation[T * T, DType.float32, address_space=AddressSpace.SHARED]()
    var x = Int(thread_idx.x)
    var y = Int(thread_idx.y)
    var row = Int(block_idx.y) * T + y
    var column = Int(block_idx.x) * T + x
    var sum = Float32(0)
    for k in range(0, n, T):
        ta[unsafe_offset = y * T + x] = a[unsafe_offset = row * n + k + x]
        tb[unsafe_offset = y * T + x] = b[unsafe_offset = (k + y) * n + column]
        barrier()
        comptime for i in range(T):
            sum = fma(ta[unsafe_offset = y * T + i], tb[unsafe_offset = i * T + x], sum)
        barrier()
    c[unsafe_offset = row * n + column] = sum


def tensor_cores(a: Brains, b: Brains, c: Floats):
    var i = Int(lane_id())
    var d = c.load[width=4](4 * i)
    mma(d, a.load[width=8](8 * i), b.load[width=4](4 * i), d)
    c.store(4 * i, d)


def copies(a: Floats, b: Floats):
    var shared = stack_allocation[512, DType.float32, address_space=AddressSpace.SHARED]()
    var i = 4 * Int(thread_idx.x)
    async_copy[16](a.unsafe_offset(i).address_space_cast[AddressSpace.GLOBAL](), shared.unsafe_offset(i))
    async_copy_commit_group()
    async_copy_wait_all()
    barrier()
    b.store(i, shared.load[width=4](508 - i))


def main():
    comptime target = get_gpu_target[get_defined_string["TARGET"]()]()
    comptime name = get_defined_string["KERNEL"]()
    comptime if name == "add":
        print(_compile_code[add, target=target]().asm)
    comptime if name == "reduce":
        print(_compile_code[reduce, target=target]().asm)
    comptime if name == "histogram":
        print(_compile_code[histogram, target=target]().asm)
    comptime if name == "functions":
        print(_compile_code[functions, target=target]().asm)
    comptime if name == "halves":
        print(_compile_code[halves, target=target]().asm)
    comptime if name == "integers":
        print(_compile_code[integers, target=target]().asm)
    comptime if name == "exchange":
        print(_compile_code[exchange, target=target]().asm)
    comptime if name == "softmax":
        print(_compile_code[softmax, target=target]().asm)
    comptime if name == "matmul":
        print(_compile_code[matmul, target=target]().asm)
    comptime if name == "tensor_cores":
        print(_compile_code[tensor_cores, target=target]().asm)
    comptime if name == "copies":
        print(_compile_code[copies, target=target]().asm)
