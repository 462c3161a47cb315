#!/usr/bin/env python3
"""PyTorch's nccl backend on whatever libnccl.so.2 is preloaded, two ranks on one GPU.

    LD_PRELOAD=build/release/nccl/libnccl.so.2 python3 tests/nccl/torch_check.py

Compares collectives with what they must give, and a step of DistributedDataParallel with the same step in one process.
Ends with 0 when all is right or PyTorch or a GPU is missing (which it says), else with 1.
"""
import os
import sys

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as processes
except ImportError:
    print("torch_check: skipped, there is no PyTorch")
    sys.exit(0)

RANKS = 2


def check_collectives(rank, device):
    mine = torch.arange(1000, dtype=torch.float32, device=device) + rank
    everybody = [torch.arange(1000, dtype=torch.float32, device=device) + r for r in range(RANKS)]

    total = mine.clone()
    dist.all_reduce(total)
    assert torch.equal(total, sum(everybody)), "all_reduce"

    gathered = torch.empty(RANKS * 1000, device=device)
    dist.all_gather_into_tensor(gathered, mine)
    assert torch.equal(gathered, torch.cat(everybody)), "all_gather"

    part = torch.empty(1000 // RANKS, device=device)
    dist.reduce_scatter_tensor(part, mine)
    assert torch.equal(part, sum(everybody).chunk(RANKS)[rank]), "reduce_scatter"

    exchanged = torch.empty_like(mine)
    dist.all_to_all_single(exchanged, mine)
    assert torch.equal(exchanged, torch.cat([e.chunk(RANKS)[rank] for e in everybody])), "all_to_all"

    # Messages, in one group.
    received = torch.empty_like(mine)
    work = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, (rank + 1) % RANKS),
                                   dist.P2POp(dist.irecv, received, (rank - 1) % RANKS)])
    for one in work:
        one.wait()
    assert torch.equal(received, everybody[(rank - 1) % RANKS]), "send and receive"


def model_and_data(device):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).to(device)
    return model, torch.randn(RANKS * 16, 64, device=device), torch.randn(RANKS * 16, 8, device=device)


def step(model, inputs, targets):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def check_ddp(rank, device):
    model, inputs, targets = model_and_data(device)
    alone = step(model, inputs, targets)
    model, inputs, targets = model_and_data(device)
    model = torch.nn.parallel.DistributedDataParallel(model)
    together = step(model, inputs.chunk(RANKS)[rank], targets.chunk(RANKS)[rank])
    # The mean over two halves is added up in another order.
    for one, other in zip(alone, together):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def run(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", rank=rank, world_size=RANKS)
    check_collectives(rank, device)
    check_ddp(rank, device)
    torch.cuda.synchronize()
    dist.destroy_process_group()
    print(f"torch_check: rank {rank} of {RANKS} is right, NCCL {torch.cuda.nccl.version()}")


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("torch_check: skipped, there is no GPU")
        sys.exit(0)
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        chosen = free.getsockname()[1]
    processes.spawn(run, args=(chosen,), nprocs=RANKS)
