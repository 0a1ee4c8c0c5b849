import { rm, writeFile } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it, type TestContext } from 'vitest';
import { inRange, NetworkHarness, networkError, type NetworkCapability, type NetworkFixture } from './harness.ts';
import { NetworkError } from '../network.ts';
import type { Attachment } from '../network.ts';

export type { NetworkCapability, NetworkFixture } from './harness.ts';

/** Declares the tests that every network driver must pass. Call it once per driver, and once per decorator of a driver. Each test opens its own fixture. */
export function networkContract(
  name: string,
  open: () => Promise<NetworkFixture>,
  { unavailable }: { readonly unavailable?: string } = {},
): void {
  describe(`network/v1 contract: ${name}`, { timeout: 300_000 }, () => {
    if (unavailable !== undefined) {
      it('runs on this machine', (context) => {
        context.skip(unavailable);
      });
      return;
    }
    let opened: NetworkHarness | undefined;
    beforeEach(async () => {
      opened = new NetworkHarness(await open());
    }, 300_000);
    afterEach(async () => {
      await opened?.close();
      opened = undefined;
    }, 300_000);
    const test = (title: string, body: (harness: NetworkHarness) => Promise<void>, needs: readonly NetworkCapability[] = []) => {
      it(title, async (context: TestContext) => {
        const harness = opened;
        if (!harness) throw new Error('the fixture did not open');
        for (const capability of needs) {
          const reason: string | undefined = harness.fixture.unsupported?.[capability];
          if (reason !== undefined) context.skip(`${capability} is not supported: ${reason}`);
        }
        await body(harness);
      });
    };

    test('is ready after setup, and gives a reason if it is not ready before', async (harness) => {
      const before = await harness.driver.status();
      if (!before.ready) expect(before.message).toMatch(/./);
      await harness.driver.setup(harness.fixture.node);
      expect(await harness.driver.status()).toMatchObject({ ready: true });
    });

    test('keeps its attachments when it is set up again', async (harness) => {
      await harness.driver.setup(harness.fixture.node);
      const one = await harness.add();
      await harness.driver.setup(harness.fixture.node);
      await harness.driver.check(one.attachment);
      const two = await harness.add();
      if (harness.fixture.unsupported?.addresses === undefined) expect(two.ip).not.toBe(one.ip);
      await harness.delAll([one.attachment, two.attachment]);
    });

    test('assigns addresses inside the range, without prefix length', async (harness) => {
      await harness.driver.setup(harness.fixture.small);
      const { attachment, result } = await harness.add();
      expect(result.ips.length).toBeGreaterThan(0);
      for (const ip of result.ips) {
        expect(ip).toMatch(/^[0-9a-f.:]+$/);
        if (harness.fixture.unsupported?.addresses === undefined)
          expect(
            harness.fixture.small.podCIDRs.some((range) => inRange(ip, range)),
            `${ip} in ${harness.fixture.small.podCIDRs}`,
          ).toBe(true);
      }
      await harness.del(attachment);
    });

    test(
      'passes a check of an attachment, and reports Broken for a missing one',
      async (harness) => {
        await harness.driver.setup(harness.fixture.node);
        const { attachment } = await harness.add();
        await harness.driver.check(attachment);
        await harness.driver.check(attachment);
        await harness.driver.del(attachment);
        await expect(harness.driver.check(attachment)).rejects.toEqual(networkError('Broken'));
        await expect(harness.driver.check(await harness.attachment())).rejects.toEqual(networkError('Broken'));
      },
      ['addresses'],
    );

    test('never assigns a second address to an attachment', async (harness) => {
      await harness.driver.setup(harness.fixture.small);
      const before = await harness.fixture.countResources?.();
      const attachment = await harness.attachment();
      const answers = await Promise.allSettled(Array.from({ length: 4 }, () => harness.driver.add(attachment)));
      answers.push(...(await Promise.allSettled([harness.driver.add(attachment)])));
      const attachments = answers.filter((answer) => answer.status === 'fulfilled').map((answer) => answer.value.ips.join());
      expect(new Set(attachments).size).toBe(1);
      for (const answer of answers) if (answer.status === 'rejected') expect(answer.reason).toBeInstanceOf(NetworkError);
      await harness.driver.check(attachment);
      await harness.del(attachment);
      await harness.expectResources(before);
    });

    test('deletes idempotently: existing, deleted, never added, before setup', async (harness) => {
      await harness.driver.del(await harness.attachment());
      await harness.driver.setup(harness.fixture.node);
      await harness.driver.del(await harness.attachment());
      const { attachment } = await harness.add();
      await Promise.all([harness.driver.del(attachment), harness.driver.del(attachment)]);
      await harness.driver.del(attachment);
    });

    test(
      'deletes an attachment whose namespace is gone, whether it is named or not, or replaced by a file',
      async (harness) => {
        await harness.driver.setup(harness.fixture.small);
        const before = await harness.fixture.countResources?.();
        const attachments = await harness.fill();
        for (const [index, attachment] of [...attachments.values()].entries()) {
          await harness.removeNetns(attachment);
          const { netns, ...without } = attachment;
          const left = netns !== undefined && index % 3 === 2;
          if (left) await writeFile(netns, '', { flag: 'wx' });
          await harness.driver.del(index % 3 === 0 || netns === undefined ? without : { ...without, netns });
          if (left) await rm(netns);
        }
        await harness.expectResources(before);
        const again = await harness.fill();
        expect(again.size).toBe(attachments.size);
        await harness.delAll(again.values());
      },
      ['addresses'],
    );

    test(
      'assigns distinct addresses to 50 concurrent adds',
      async (harness) => {
        await harness.driver.setup(harness.fixture.node);
        const attachments = await Promise.all(Array.from({ length: 50 }, () => harness.attachment()));
        const results = await Promise.all(attachments.map((attachment) => harness.driver.add(attachment)));
        expect(new Set(results.map((result) => result.ips[0])).size).toBe(50);
        await Promise.all(attachments.map((attachment) => harness.driver.check(attachment)));
        await Promise.all(attachments.map((attachment) => harness.del(attachment)));
      },
      ['addresses'],
    );

    test(
      'leaks nothing over hundreds of add and del',
      async (harness) => {
        await harness.driver.setup(harness.fixture.small);
        await harness.del((await harness.add()).attachment); // shared parts that the first add creates, such as a bridge, stay
        const before = await harness.fixture.countResources?.();
        const held = new Map<string, string>();
        const workers = Array.from({ length: 3 }, async (_, worker) => {
          for (let round = worker; round < (harness.fixture.cycles ?? 300); round += 3) {
            const { attachment, ip } = await harness.add();
            expect(held.get(ip), `${ip} is held`).toBeUndefined();
            held.set(ip, attachment.containerId);
            held.delete(ip); // before del: from then on another add may get it
            await harness.del(attachment);
          }
        });
        await Promise.all(workers);
        await harness.expectResources(before);
      },
      ['addresses'],
    );

    test(
      'reports exhaustion, and recovers',
      async (harness) => {
        await harness.driver.setup(harness.fixture.small);
        const attachments = await harness.fill();
        expect(attachments.size).toBeGreaterThanOrEqual(3);
        const rejected = await harness.attachment();
        await expect(harness.driver.add(rejected)).rejects.toEqual(networkError('Exhausted'));
        const [ip, freed] = [...attachments].at(1) ?? expect.fail('no address was assigned');
        await harness.del(freed);
        attachments.delete(ip);
        expect((await harness.driver.add(rejected)).ips[0]).toBe(ip);
        for (const attachment of attachments.values()) await harness.driver.check(attachment);
        await harness.delAll([...attachments.values(), rejected]);
      },
      ['addresses'],
    );

    test(
      'frees with gc what is not listed, by container and interface',
      async (harness) => {
        await harness.driver.setup(harness.fixture.small);
        const attachments = [...(await harness.fill())];
        const kept = attachments.filter((_, index) => index % 2 === 0);
        const dropped = attachments.filter((_, index) => index % 2 === 1);
        await harness.driver.gc(kept.map(([, { containerId, ifName }]) => ({ containerId, ifName })));
        for (const [, attachment] of kept) await harness.driver.check(attachment);
        for (const [, attachment] of dropped) await expect(harness.driver.check(attachment)).rejects.toEqual(networkError('Broken'));
        const refilled = await harness.fill();
        expect([...refilled.keys()].sort()).toEqual(dropped.map(([ip]) => ip).sort());
        await harness.driver.gc([]);
        const all = await harness.fill();
        expect(all.size).toBe(attachments.length);
        const { containerId } = [...all.values()][0] ?? expect.fail('no address was assigned');
        await harness.driver.gc([{ containerId, ifName: 'other0' }]);
        const anew = await harness.fill();
        expect(anew.size).toBe(attachments.length);
        await harness.delAll([...attachments.map(([, attachment]) => attachment), ...refilled.values(), ...all.values(), ...anew.values()]);
      },
      ['addresses'],
    );

    test('rejects names that are empty or contain path separators', async (harness) => {
      await harness.driver.setup(harness.fixture.node);
      for (const bad of [{ containerId: '../../etc' }, { containerId: '' }, { ifName: 'a/b' }, { ifName: '' }]) {
        await expect(harness.driver.add(await harness.attachment(bad))).rejects.toEqual(networkError('InvalidConfig'));
      }
    });

    test('leaves nothing of an aborted add', async (harness) => {
      await harness.driver.setup(harness.fixture.small);
      await harness.del((await harness.add()).attachment);
      const before = await harness.fixture.countResources?.();
      const attachment = await harness.attachment();
      await expect(harness.driver.add(attachment, { signal: AbortSignal.abort() })).rejects.toThrow();
      const late = new AbortController();
      const adding = harness.driver.add(attachment, { signal: late.signal });
      late.abort();
      await adding.then(
        () => harness.driver.check(attachment),
        () => undefined,
      );
      await harness.del(attachment);
      await harness.expectResources(before);
    });

    test(
      'keeps its attachments over a restart and assigns no address twice',
      async (harness) => {
        await harness.driver.setup(harness.fixture.small);
        const first = [await harness.add(), await harness.add()];
        await harness.restart();
        await harness.driver.setup(harness.fixture.small);
        for (const { attachment } of first) await harness.driver.check(attachment);
        const again = await harness.driver.add(first[0]?.attachment ?? expect.fail()).then(
          (result) => result.ips[0],
          (error: unknown) => {
            expect(error).toBeInstanceOf(NetworkError);
            return undefined;
          },
        );
        if (again !== undefined) expect(again).toBe(first[0]?.ip);
        const rest = await harness.fill();
        for (const { ip } of first) expect(rest.has(ip), `${ip} was assigned twice`).toBe(false);
        await harness.delAll([...first.map(({ attachment }) => attachment), ...rest.values()]);
        const all = await harness.fill();
        expect(all.size).toBe(rest.size + first.length);
        await harness.delAll(all.values());
      },
      ['restart', 'addresses'],
    );

    test(
      'frees with gc what a killed add held',
      async (harness) => {
        await harness.driver.setup(harness.fixture.small);
        const all = await harness.fill();
        await harness.delAll(all.values());
        const before = await harness.fixture.countResources?.();
        const kept = await harness.add();
        await harness.restart();
        const crashed: Attachment[] = [];
        for (let count = 0; count < 5; count++) {
          const attachment = await harness.attachment();
          crashed.push(attachment);
          await harness.fixture.crashAdd?.(attachment, harness.fixture.small);
          if (count % 2 === 1) await harness.removeNetns(attachment);
        }
        await harness.restart();
        await harness.driver.setup(harness.fixture.small);
        await harness.driver.gc([{ containerId: kept.attachment.containerId, ifName: kept.attachment.ifName }]);
        await harness.driver.check(kept.attachment);
        const rest = await harness.fill();
        expect(rest.has(kept.ip)).toBe(false);
        expect(rest.size).toBe(all.size - 1);
        await harness.delAll([kept.attachment, ...rest.values(), ...crashed]);
        await harness.expectResources(before);
      },
      ['restart', 'crash', 'addresses'],
    );
  });
}
