import { quantile } from '../support/statistics.ts';

/** One operation whose processor time is measured. `run` is called `calls` times per turn. */
export interface Operation {
  readonly name: string;
  readonly calls: number;
  run(call: number): unknown;
}

/**
 * The cost of an operation in iterations of the calibration loop. `value` is the tenth percentile of the runs, because other load only adds to
 * a cost; `middle` and `high` are the median and the upper quartile.
 */
export interface Cost {
  readonly name: string;
  readonly value: number;
  readonly middle: number;
  readonly high: number;
}

const calibrationIterations = 4_000;

/**
 * The unit of all costs: creates, reads and encodes a small object. It allocates, hashes and copies strings as the measured operations do, so that
 * other load on the machine slows both down by nearly the same factor.
 */
function calibrate(): number {
  const known = new Map<string, object>();
  let length = 0;
  for (let i = 0; i < calibrationIterations; i++) {
    const key = `default/name-${i % 200}`;
    const object = { kind: 'ConfigMap', metadata: { name: key, labels: { app: 'a', tier: String(i) } }, data: { text: key } };
    known.set(key, object);
    const text = JSON.stringify(known.get(key));
    length += text.length + Object.keys(JSON.parse(text) as object).length;
  }
  return length;
}

/** Returns the processor time of this process that `work` takes, in microseconds, garbage collection included. */
async function processorTime(work: () => unknown): Promise<number> {
  const began = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(began);
  return user + system;
}

async function runBatch({ calls, run }: Operation, turn: number): Promise<void> {
  for (let call = 0; call < calls; call++) {
    const pending = run(turn * calls + call);
    if (pending instanceof Promise) await pending;
  }
}

/**
 * Measures the operations in turns. In each turn the calibration loop runs before and after every operation, and the cost is relative to both: load
 * that lasts longer than some 50 ms cancels out.
 */
export async function measureCosts(operations: readonly Operation[], runs: number, warmUpRuns: number): Promise<readonly Cost[]> {
  const samples = operations.map((): number[] => []);
  for (let turn = 0; turn < runs + warmUpRuns; turn++) {
    let before = await processorTime(calibrate);
    for (const [i, operation] of operations.entries()) {
      const time = await processorTime(() => runBatch(operation, turn));
      const after = await processorTime(calibrate);
      const unit = (before + after) / 2 / calibrationIterations;
      if (turn >= warmUpRuns) samples[i]?.push(time / operation.calls / unit);
      before = after;
    }
  }
  return operations.map(({ name }, i) => {
    const values = samples[i] ?? [];
    return { name, value: quantile(values, 0.1), middle: quantile(values, 0.5), high: quantile(values, 0.75) };
  });
}
