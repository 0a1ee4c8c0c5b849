import { afterAll, afterEach, beforeAll, describe, it, type TestContext } from 'vitest';
import type { RuntimeCapability, RuntimeFixture } from './fixture.ts';
import { RuntimeHarness, type Suite } from './harness.ts';
import { imageContract } from './images.ts';
import { lifecycleContract } from './lifecycle.ts';
import { logContract } from './logs.ts';
import { restartContract } from './restart.ts';
import { streamContract } from './streams.ts';

export { shellPrograms } from './fixture.ts';
export type { Program, RuntimeCapability, RuntimeFixture } from './fixture.ts';

/**
 * Declares the tests that every runtime driver must pass. Call it once per driver, and once per decorator of a driver.
 *
 * One fixture serves the whole suite; every test creates its own sandboxes, which are removed after it. `unavailable` is the reason
 * why the runtime cannot run on this machine; the suite then is one skipped test.
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
    let harness: RuntimeHarness | undefined;
    const opened = (): RuntimeHarness => {
      if (!harness) throw new Error('the fixture did not open');
      return harness;
    };
    beforeAll(async () => {
      harness = await RuntimeHarness.open(await open());
    }, 300_000);
    afterEach(async () => {
      await harness?.clean();
    }, 300_000);
    afterAll(async () => {
      await harness?.close();
    }, 300_000);

    const declare = (needed: readonly RuntimeCapability[], title: string, body: (harness: RuntimeHarness) => Promise<void>) => {
      it(title, async (context: TestContext) => {
        for (const capability of needed) {
          const reason = opened().fixture.unsupported?.[capability];
          if (reason !== undefined) context.skip(`${capability} is not supported: ${reason}`);
        }
        await body(opened());
      });
    };
    const suite: Suite = {
      test: (title, body) => declare([], title, body),
      needs: (capability, title, body) => declare(typeof capability === 'string' ? [capability] : capability, title, body),
    };
    describe('lifecycle', () => lifecycleContract(suite));
    describe('logs', () => logContract(suite));
    describe('streams', () => streamContract(suite));
    describe('images and stats', () => imageContract(suite));
    describe('restart of the client', () => restartContract(suite));
  });
}
