import fc from 'fast-check';

/** A parser of foreign bytes. */
export interface FuzzTarget<T = unknown> {
  readonly name: string;
  readonly inputs: fc.Arbitrary<T>;
  parse(input: T): unknown;
  /** Returns true for the errors that the parser documents. */
  isRejection(error: unknown): boolean;
}

export interface FuzzResult {
  readonly name: string;
  readonly inputs: number;
  readonly rejected: number;
  readonly slowestMs: number;
  readonly grownMiB: number;
  /** What failed, with the smallest input that was found. */
  readonly failure?: string;
  /** The input that failed, for the corpus. */
  readonly counterexample?: unknown;
}

export interface FuzzOptions<T> {
  readonly seed: number;
  readonly ms: number;
  /** The maximum number of inputs. */
  readonly count?: number | undefined;
  /** The inputs of the corpus, which are parsed first. */
  readonly corpus?: readonly T[];
}

const maxMs = 100;
const maxGrowthBytes = 64 * 1024 * 1024;
/** Attempts of a slow input: the fastest one counts, since other processes and garbage collections delay the rest. */
const slowAttempts = 4;

const prototypes: readonly object[] = [Object.prototype, Array.prototype, Function.prototype, String.prototype, Map.prototype];
const fingerprint = (): number => prototypes.reduce((sum, prototype) => sum + Reflect.ownKeys(prototype).length, 0);
const untouched = fingerprint();

const collect = (globalThis as { readonly gc?: () => void }).gc ?? (() => {});
const memory = (): number => {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};
/** Collects garbage when the streams and timers of earlier inputs have been released, which happens after their parser has returned. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    collect();
  }
}
/** Milliseconds of processor time of this process. */
const processorMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

/** The number of inputs between two measurements of the memory. */
const inputsPerBaseline = 500;

/**
 * The number of inputs between two collections of garbage. Without them the heap of a run of SPDY connections is 67 MiB larger in the end, after
 * 180,000 connections as after 540,000, and a leak cannot be distinguished from what V8 keeps of garbage that it has not collected for long.
 */
const inputsPerCollection = 5000;

class Finding extends Error {}

/** Every target parses so many inputs, also on a busy machine where its share of the time has passed before. */
const minInputs = 25;

/** Runs a target with its corpus, then for some time, with at least `minInputs` inputs, which follow from the seed. */
export async function fuzz<T>(
  target: FuzzTarget<T>,
  { seed, ms, count = 1_000_000_000, corpus = [] }: FuzzOptions<T>,
): Promise<FuzzResult> {
  let [rejected, slowestMs, parsed, baseline] = [0, 0, 0, memory()];
  const once = async (input: T): Promise<number> => {
    // measuring memory takes longer than most inputs: garbage of earlier inputs is collected before growth counts
    if (parsed % inputsPerCollection === inputsPerCollection - 1) collect();
    if (parsed % inputsPerBaseline === 0) baseline = memory();
    parsed += 1;
    const began = processorMs();
    try {
      await target.parse(input);
    } catch (error) {
      if (!target.isRejection(error)) throw new Finding(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
      rejected += 1;
    }
    const took = processorMs() - began;
    if (fingerprint() !== untouched || 'polluted' in {}) throw new Finding('a prototype was changed');
    if (took > 5 && memory() - baseline > maxGrowthBytes) {
      await settle();
      if (memory() - baseline > maxGrowthBytes) throw new Finding(`the memory grew by ${Math.round((memory() - baseline) / 1048576)} MiB`);
    }
    return took;
  };
  const property = fc.asyncProperty(target.inputs, async (input) => {
    let took = await once(input);
    for (let attempt = 1; attempt < slowAttempts && took > maxMs; attempt += 1) took = Math.min(took, await once(input));
    slowestMs = Math.max(slowestMs, took);
    if (took > maxMs) throw new Finding(`the parser took ${Math.round(took)} ms`);
  });
  collect();
  const before = memory();
  const end = performance.now() + ms;
  const first = await fc.check(property, { seed, numRuns: corpus.length + minInputs, examples: corpus.map((input) => [input]) });
  const left = end - performance.now();
  const continued = !first.failed && left > 0 && count > first.numRuns;
  // another seed: the same one repeats the first inputs
  const rest = continued
    ? await fc.check(property, { seed: seed + 1, numRuns: count - first.numRuns, interruptAfterTimeLimit: left })
    : undefined;
  // fast-check also calls a check failed that ends before its first input
  const result = rest === undefined || (rest.interrupted && rest.numRuns === 0) ? first : rest;
  await settle();
  const grown = memory() - before;
  const failure = result.failed
    ? `${result.errorInstance instanceof Error ? result.errorInstance.message : String(result.errorInstance)}\n  input: ${fc.stringify(result.counterexample).slice(0, 2000)}`
    : grown > maxGrowthBytes
      ? `the memory grew by ${Math.round(grown / 1048576)} MiB over all inputs`
      : undefined;
  return {
    name: target.name,
    inputs: first.numRuns + (rest?.numRuns ?? 0),
    rejected,
    slowestMs,
    grownMiB: grown / 1048576,
    ...(failure !== undefined && { failure, counterexample: result.counterexample?.[0] }),
  };
}
