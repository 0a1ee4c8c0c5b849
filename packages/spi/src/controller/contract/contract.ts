import { describe, expect, it } from 'vitest';
import { ControllerProcess, type ContractApi, type ControllerTestEnvironment, type ControllerFactory } from './harness.ts';
import { writeFaults, WriteLog, type WriteFault } from './fault-injection.ts';

export type {
  ContractApi,
  ContractClock,
  ContractInformers,
  ControllerDependencies,
  ControllerTestEnvironment,
  ControllerFactory,
} from './harness.ts';

/** A desired state, and the result that the controller must reach. */
export interface ControllerScenario<A extends ContractApi> {
  readonly title: string;
  /** Writes of users and other controllers, in order. A step must not depend on what the controller does before it. */
  readonly steps: readonly ((api: A) => Promise<void> | void)[];
  /** Simulates other components, such as a kubelet that reports pods as ready. Returns true if a component changed an object. */
  readonly simulateOthers?: (api: A) => Promise<boolean> | boolean;
  /** Checks the final state. Throws until the state is reached. */
  readonly expectResult: (api: A) => void;
  /** Limit of simulated time in milliseconds. Default 10 minutes. */
  readonly withinMs?: number;
}

export interface ControllerContractOptions<A extends ContractApi> {
  open(): ControllerTestEnvironment<A> | Promise<ControllerTestEnvironment<A>>;
  /** Creates the controller. Called once for each simulated process. */
  readonly create: ControllerFactory<A>;
  readonly scenarios: readonly ControllerScenario<A>[];
}

const reconnectMs = 60_000;
const restMs = 5_000;
const tickMs = 100;
const maxFaults = 60; // limit of writes per scenario: each is faulted in a run of its own

/**
 * Declares the tests that every controller must pass: that it is level based. Each scenario runs without faults, then once for
 * every write and every fault of that write, and must reach the same result.
 */
export function controllerContract<A extends ContractApi>(name: string, { open, create, scenarios }: ControllerContractOptions<A>): void {
  describe(`controller/v1 contract: ${name}`, { timeout: 300_000 }, () => {
    for (const scenario of scenarios)
      describe(scenario.title, () => {
        const run = async (how: Partial<RunOptions> = {}, after?: (run: ScenarioRun<A>) => Promise<void>): Promise<readonly string[]> => {
          const environment = await open();
          const current = new ScenarioRun(environment, create, scenario, { writes: new WriteLog(), ...how });
          try {
            await current.runToCompletion();
            await after?.(current);
          } finally {
            await current.close();
          }
          return current.writes.writes;
        };

        it('reaches the result and then stays idle', async () => {
          await run({}, async (current) => {
            expect(current.process.errors, 'a reconcile threw though nothing went wrong').toEqual([]);
            const before = current.writes.writes.length;
            current.process.enqueueAll();
            await current.settle();
            expect(current.writes.writes.slice(before), 'writes at rest').toEqual([]);
            scenario.expectResult(current.environment.api);
            // keys may be requeued, but not in a tight loop
            const reconciles = current.process.reconcileCount;
            for (let tick = 0; tick < restMs / tickMs; tick++) {
              await current.environment.clock.advance(tickMs);
              await current.settle();
            }
            expect(current.process.reconcileCount - reconciles, `reconciles in ${restMs} ms at rest`).toBeLessThanOrEqual(
              (restMs / tickMs / 2) * current.process.seenKeys.size,
            );
          });
        });

        it('reaches the result from a cold start', async () => {
          await run({ coldStart: true });
        });

        it('writes nothing after a restart at rest', async () => {
          await run({}, async (current) => {
            const before = current.writes.writes.length;
            await current.restart();
            await current.settle();
            expect(current.writes.writes.slice(before)).toEqual([]);
          });
        });

        it('reaches the result when watches are cut and history is compacted before every step', async () => {
          await run({
            before: (api) => {
              api.compact();
              api.dropWatches();
            },
          });
        });

        it('ignores keys of objects that do not exist', async () => {
          await run({}, async (current) => {
            const before = current.writes.writes.length;
            for (const key of [...current.process.seenKeys].some((seen) => seen.includes('/')) ? ['nowhere/nothing'] : ['nothing'])
              current.process.enqueue(key);
            await current.settle();
            expect(current.process.errors).toEqual([]);
            expect(current.writes.writes.slice(before)).toEqual([]);
          });
        });

        it.each(writeFaults)('reaches the result if a write is faulted: %s', async (kind: WriteFault) => {
          const clean = await run();
          expect(clean.length, 'more writes than the suite cuts: make the scenario smaller').toBeLessThanOrEqual(maxFaults);
          for (let at = 1; at <= clean.length; at++) {
            // only an update or patch of an existing object can conflict
            if ((kind === 'conflict' || kind === 'raced') && !/^(update|patch) /.test(clean[at - 1] ?? '')) continue;
            const check = (writes: readonly string[]) => {
              // a controller that trusts a stale cache creates an object with a generated name twice
              if (kind === 'unseen')
                expect(countGeneratedNames(writes), 'objects writes without a name').toBeLessThanOrEqual(countGeneratedNames(clean));
            };
            await run({ writes: new WriteLog({ at, kind }) })
              .then(check)
              .catch((error: unknown) => {
                throw new Error(`write ${at} of ${clean.length} (${clean[at - 1]}) ended in "${kind}": ${(error as Error).message}`, {
                  cause: error,
                });
              });
          }
        });
      });
  });
}

/**
 * Returns the number of create requests without a name, which generate one. Does not count reviews (SubjectAccessReview and others), which are not
 * stored and may be repeated.
 */
const countGeneratedNames = (writes: readonly string[]) =>
  writes.filter((write) => /^create [^ ]+$/.test(write) && !/reviews\./.test(write)).length;

interface RunOptions {
  readonly writes: WriteLog;
  readonly coldStart?: boolean;
  readonly before?: (api: ContractApi) => void;
}

/** One run of a scenario, with as many simulated processes of the controller as the faults require. */
class ScenarioRun<A extends ContractApi> {
  readonly environment: ControllerTestEnvironment<A>;
  readonly writes: WriteLog;
  readonly #create: ControllerFactory<A>;
  readonly #scenario: ControllerScenario<A>;
  readonly #options: RunOptions;
  process: ControllerProcess<A>;

  constructor(
    environment: ControllerTestEnvironment<A>,
    create: ControllerFactory<A>,
    scenario: ControllerScenario<A>,
    options: RunOptions,
  ) {
    this.environment = environment;
    this.writes = options.writes;
    this.#create = create;
    this.#scenario = scenario;
    this.#options = options;
    this.process = new ControllerProcess(environment, create, this.writes);
  }

  async runToCompletion(): Promise<void> {
    const { steps, expectResult, withinMs = 600_000 } = this.#scenario;
    const { api, clock } = this.environment;
    if (this.#options.coldStart === true) for (const step of steps) await step(api);
    await this.process.start();
    if (this.#options.coldStart !== true) {
      for (const step of steps) {
        this.#options.before?.(api);
        await step(api);
        // informers reconnect with a delay
        if (this.#options.before !== undefined) await clock.advance(reconnectMs);
        await this.settle();
      }
    }
    await this.settle();
    const until = clock.monotonic() + withinMs;
    for (;;) {
      try {
        expectResult(api);
        return;
      } catch (error) {
        if (!this.process.hasDelayedKeys || clock.monotonic() > until) throw error;
      }
      await this.process.waitForDelayedKey();
      await this.settle();
    }
  }

  /** Runs until the controller and the other components are idle. Restarts a controller process that was killed. */
  async settle(): Promise<void> {
    do {
      await this.process.drain();
      if (this.process.isCacheBehind) await this.process.catchUp();
      while (this.process.isDead) {
        await this.restart();
        await this.process.drain();
      }
    } while (await this.#scenario.simulateOthers?.(this.environment.api));
  }

  async restart(): Promise<void> {
    await this.process.kill();
    this.process = new ControllerProcess(this.environment, this.#create, this.writes);
    await this.process.start();
  }

  async close(): Promise<void> {
    await this.process.kill();
    await this.environment.api.stop();
  }
}
