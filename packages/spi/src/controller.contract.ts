import { describe, expect, it } from 'vitest';
import { ControllerLife, type ContractApi, type ControllerWorld, type MakeController } from './controller.contract.bench.ts';
import { cuts, Writes, type Cut } from './controller.contract.client.ts';

export type {
  ContractApi,
  ContractClock,
  ContractInformers,
  ControllerParts,
  ControllerWorld,
  MakeController,
} from './controller.contract.bench.ts';

/** A piece of the controller's work, from what is wished for to what has come of it. */
export interface ControllerScenario<A extends ContractApi> {
  readonly title: string;
  /** What users and other controllers write, one after the other. Steps do not rely on what the controller does between them. */
  readonly steps: readonly ((api: A) => Promise<void> | void)[];
  /** Plays the part of everybody else, such as a kubelet that reports pods as ready. Returns whether it changed anything. */
  readonly others?: (api: A) => Promise<boolean> | boolean;
  /** Looks at what there is at the end; throws while it is not as it should be. */
  readonly holds: (api: A) => void;
  /** Milliseconds of simulated time until then, at most. Default 10 minutes. */
  readonly withinMs?: number;
}

export interface ControllerContractOptions<A extends ContractApi> {
  open(): ControllerWorld<A> | Promise<ControllerWorld<A>>;
  /** Makes the controller over these parts; called once for each life of its process. */
  readonly create: MakeController<A>;
  readonly scenarios: readonly ControllerScenario<A>[];
}

const reconnectMs = 60_000;
const restMs = 5_000;
const tickMs = 100;
const maxCuts = 60; // writes of a scenario that are cut, one run each

/**
 * What every controller promises: that it is level based. Each scenario is run as it is, then once for every write and every way in which
 * that write can go wrong, and must come to the same end.
 */
export function controllerContract<A extends ContractApi>(name: string, { open, create, scenarios }: ControllerContractOptions<A>): void {
  describe(`controller/v1 contract: ${name}`, { timeout: 300_000 }, () => {
    for (const scenario of scenarios)
      describe(scenario.title, () => {
        const run = async (how: Partial<RunOptions> = {}, after?: (run: Run<A>) => Promise<void>): Promise<readonly string[]> => {
          const world = await open();
          const current = new Run(world, create, scenario, { writes: new Writes(), ...how });
          try {
            await current.toTheEnd();
            await after?.(current);
          } finally {
            await current.close();
          }
          return current.writes.made;
        };

        it('gets there, and then leaves everything alone', async () => {
          await run({}, async (current) => {
            expect(current.life.errors, 'a reconcile threw though nothing went wrong').toEqual([]);
            const before = current.writes.made.length;
            current.life.wakeAll();
            await current.settle();
            expect(current.writes.made.slice(before), 'writes at rest').toEqual([]);
            scenario.holds(current.world.api);
            // keys may come back for a look, not in a circle
            const looks = current.life.reconciles;
            for (let tick = 0; tick < restMs / tickMs; tick++) {
              await current.world.clock.advance(tickMs);
              await current.settle();
            }
            expect(current.life.reconciles - looks, `reconciles in ${restMs} ms at rest`).toBeLessThanOrEqual(
              (restMs / tickMs / 2) * current.life.seen.size,
            );
          });
        });

        it('gets there from a cold start, when everything was written before', async () => {
          await run({ coldStart: true });
        });

        it('changes nothing when it starts again at rest', async () => {
          await run({}, async (current) => {
            const before = current.writes.made.length;
            await current.restart();
            await current.settle();
            expect(current.writes.made.slice(before)).toEqual([]);
          });
        });

        it('gets there when watches are cut and history is gone before every step', async () => {
          await run({
            before: (api) => {
              api.compact();
              api.dropWatches();
            },
          });
        });

        it('is not upset by keys of what there is not', async () => {
          await run({}, async (current) => {
            const before = current.writes.made.length;
            for (const key of [...current.life.seen].some((seen) => seen.includes('/')) ? ['nowhere/nothing'] : ['nothing'])
              current.life.wake(key);
            await current.settle();
            expect(current.life.errors).toEqual([]);
            expect(current.writes.made.slice(before)).toEqual([]);
          });
        });

        it.each(cuts)('gets there whichever write ends in: %s', async (kind: Cut) => {
          const clean = await run();
          expect(clean.length, 'more writes than the suite cuts: make the scenario smaller').toBeLessThanOrEqual(maxCuts);
          for (let at = 1; at <= clean.length; at++) {
            // only what changes a version of an object can lose a race for it
            if ((kind === 'conflict' || kind === 'raced') && !/^(update|patch) /.test(clean[at - 1] ?? '')) continue;
            const check = (made: readonly string[]) => {
              // what the server names is made twice where a cache is believed that cannot know yet
              if (kind === 'unseen') expect(nameless(made), 'objects made without a name').toBeLessThanOrEqual(nameless(clean));
            };
            await run({ writes: new Writes({ at, kind }) })
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

/** Reviews are questions: nothing is kept of them. */
const nameless = (made: readonly string[]) => made.filter((write) => /^create [^ ]+$/.test(write) && !/reviews\./.test(write)).length;

interface RunOptions {
  readonly writes: Writes;
  readonly coldStart?: boolean;
  readonly before?: (api: ContractApi) => void;
}

/** One run of a scenario, over as many lives of the controller as it takes. */
class Run<A extends ContractApi> {
  readonly world: ControllerWorld<A>;
  readonly writes: Writes;
  readonly #create: MakeController<A>;
  readonly #scenario: ControllerScenario<A>;
  readonly #options: RunOptions;
  life: ControllerLife<A>;

  constructor(world: ControllerWorld<A>, create: MakeController<A>, scenario: ControllerScenario<A>, options: RunOptions) {
    this.world = world;
    this.writes = options.writes;
    this.#create = create;
    this.#scenario = scenario;
    this.#options = options;
    this.life = new ControllerLife(world, create, this.writes);
  }

  async toTheEnd(): Promise<void> {
    const { steps, holds, withinMs = 600_000 } = this.#scenario;
    const { api, clock } = this.world;
    if (this.#options.coldStart === true) for (const step of steps) await step(api);
    await this.life.start();
    if (this.#options.coldStart !== true) {
      for (const step of steps) {
        this.#options.before?.(api);
        await step(api);
        // informers come back after a delay of their own
        if (this.#options.before !== undefined) await clock.advance(reconnectMs);
        await this.settle();
      }
    }
    await this.settle();
    const until = clock.monotonic() + withinMs;
    for (;;) {
      try {
        holds(api);
        return;
      } catch (error) {
        if (!this.life.delayed || clock.monotonic() > until) throw error;
      }
      await this.life.wait();
      await this.settle();
    }
  }

  /** Until neither the controller nor the others have anything to do at this moment. A process that was killed is started again. */
  async settle(): Promise<void> {
    do {
      await this.life.drain();
      if (this.life.behind) await this.life.catchUp();
      while (this.life.dead) {
        await this.restart();
        await this.life.drain();
      }
    } while (await this.#scenario.others?.(this.world.api));
  }

  async restart(): Promise<void> {
    await this.life.end();
    this.life = new ControllerLife(this.world, this.#create, this.writes);
    await this.life.start();
  }

  async close(): Promise<void> {
    await this.life.end();
    await this.world.api.stop();
  }
}
