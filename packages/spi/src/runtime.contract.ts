import { afterAll, afterEach, beforeAll, describe, it, type TestContext } from 'vitest';
import { Bench, type RuntimeCapability, type RuntimeFixture } from './runtime.contract.bench.ts';
import { imageContract } from './runtime.contract.images.ts';
import { lifecycleContract } from './runtime.contract.lifecycle.ts';
import { logContract } from './runtime.contract.logs.ts';
import { restartContract } from './runtime.contract.restart.ts';
import { streamContract } from './runtime.contract.streams.ts';

export { shellPrograms } from './runtime.contract.bench.ts';
export type { Program, RuntimeCapability, RuntimeFixture } from './runtime.contract.bench.ts';

/** How a part of the suite declares its tests. */
export interface Suite {
  /** A test that needs nothing but the life cycle. */
  test(title: string, body: (bench: Bench) => Promise<void>): void;
  /** A test that needs what a fixture may lack; a visible skip with the fixture's reason then. */
  needs(capability: RuntimeCapability | readonly RuntimeCapability[], title: string, body: (bench: Bench) => Promise<void>): void;
}

/**
 * What every runtime driver promises. Call it once per driver, and once per decorator of a driver.
 * One fixture serves the whole suite; every test makes its own sandboxes and they are removed after it.
 * `unavailable` is the reason why the runtime cannot run on this machine: the suite is then one visible skip.
 */
export function runtimeContract(
  name: string,
  open: () => Promise<RuntimeFixture>,
  { unavailable }: { readonly unavailable?: string } = {},
): void {
  describe(`runtime/v1 contract: ${name}`, { timeout: 300_000 }, () => {
    if (unavailable !== undefined) {
      it(`runs on this machine`, (context) => {
        context.skip(unavailable);
      });
      return;
    }
    let bench: Bench | undefined;
    const opened = (): Bench => {
      if (!bench) throw new Error('the fixture did not open');
      return bench;
    };
    beforeAll(async () => {
      bench = await Bench.open(await open());
    }, 300_000);
    afterEach(async () => {
      await bench?.clean();
    }, 300_000);
    afterAll(async () => {
      await bench?.close();
    }, 300_000);

    const declare = (needed: readonly RuntimeCapability[], title: string, body: (bench: Bench) => Promise<void>) => {
      it(title, async (context: TestContext) => {
        for (const capability of needed) {
          const reason = opened().fixture.lacks?.[capability];
          if (reason !== undefined) context.skip(`${capability} is not claimed: ${reason}`);
        }
        await body(opened());
      });
    };
    const suite: Suite = {
      test: (title, body) => declare([], title, body),
      needs: (capability, title, body) => declare(typeof capability === 'string' ? [capability] : capability, title, body),
    };
    describe('life cycle', () => lifecycleContract(suite));
    describe('logs', () => logContract(suite));
    describe('streams', () => streamContract(suite));
    describe('images and stats', () => imageContract(suite));
    describe('restart of the client', () => restartContract(suite));
  });
}
