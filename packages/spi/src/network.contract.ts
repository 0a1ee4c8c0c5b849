import { rm, writeFile } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it, type TestContext } from 'vitest';
import { inRange, NetworkBench, refusal, type NetworkCapability, type NetworkFixture } from './network.contract.bench.ts';
import { NetworkError } from './network.ts';
import type { Attachment } from './network.ts';

export type { NetworkCapability, NetworkFixture } from './network.contract.bench.ts';

/** What every network driver promises. Call it once per driver, and once per decorator of a driver; every test opens a fixture of its own. */
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
    let opened: NetworkBench | undefined;
    beforeEach(async () => {
      opened = new NetworkBench(await open());
    }, 300_000);
    afterEach(async () => {
      await opened?.close();
      opened = undefined;
    }, 300_000);
    const test = (title: string, body: (bench: NetworkBench) => Promise<void>, needs: readonly NetworkCapability[] = []) => {
      it(title, async (context: TestContext) => {
        const bench = opened;
        if (!bench) throw new Error('the fixture did not open');
        for (const capability of needs) {
          const reason: string | undefined = bench.fixture.lacks?.[capability];
          if (reason !== undefined) context.skip(`${capability} is not claimed: ${reason}`);
        }
        await body(bench);
      });
    };

    test('is ready after setup, and says why it is not before', async (bench) => {
      const before = await bench.driver.status();
      if (!before.ready) expect(before.message).toMatch(/./);
      await bench.driver.setup(bench.fixture.node);
      expect(await bench.driver.status()).toMatchObject({ ready: true });
    });

    test('may be set up again and keeps what it has', async (bench) => {
      await bench.driver.setup(bench.fixture.node);
      const one = await bench.add();
      await bench.driver.setup(bench.fixture.node);
      await bench.driver.check(one.attachment);
      const two = await bench.add();
      if (bench.fixture.lacks?.addresses === undefined) expect(two.ip).not.toBe(one.ip);
      await bench.empty([one.attachment, two.attachment]);
    });

    test('gives bare addresses inside the range', async (bench) => {
      await bench.driver.setup(bench.fixture.small);
      const { attachment, result } = await bench.add();
      expect(result.ips.length).toBeGreaterThan(0);
      for (const ip of result.ips) {
        expect(ip).toMatch(/^[0-9a-f.:]+$/);
        if (bench.fixture.lacks?.addresses === undefined)
          expect(
            bench.fixture.small.podCIDRs.some((range) => inRange(ip, range)),
            `${ip} in ${bench.fixture.small.podCIDRs}`,
          ).toBe(true);
      }
      await bench.del(attachment);
    });

    test(
      'checks what it added, and calls the rest Broken',
      async (bench) => {
        await bench.driver.setup(bench.fixture.node);
        const { attachment } = await bench.add();
        await bench.driver.check(attachment);
        await bench.driver.check(attachment);
        await bench.driver.del(attachment);
        await expect(bench.driver.check(attachment)).rejects.toEqual(refusal('Broken'));
        await expect(bench.driver.check(await bench.attachment())).rejects.toEqual(refusal('Broken'));
      },
      ['addresses'],
    );

    test('never gives an attachment a second address', async (bench) => {
      await bench.driver.setup(bench.fixture.small);
      const before = await bench.fixture.census?.();
      const attachment = await bench.attachment();
      const answers = await Promise.allSettled(Array.from({ length: 4 }, () => bench.driver.add(attachment)));
      answers.push(...(await Promise.allSettled([bench.driver.add(attachment)])));
      const given = answers.filter((answer) => answer.status === 'fulfilled').map((answer) => answer.value.ips.join());
      expect(new Set(given).size).toBe(1);
      for (const answer of answers) if (answer.status === 'rejected') expect(answer.reason).toBeInstanceOf(NetworkError);
      await bench.driver.check(attachment);
      await bench.del(attachment);
      await bench.cleanAs(before);
    });

    test('deletes once, twice, what never was, and what never was set up', async (bench) => {
      await bench.driver.del(await bench.attachment());
      await bench.driver.setup(bench.fixture.node);
      await bench.driver.del(await bench.attachment());
      const { attachment } = await bench.add();
      await Promise.all([bench.driver.del(attachment), bench.driver.del(attachment)]);
      await bench.driver.del(attachment);
    });

    test(
      'deletes when the namespace is gone, whether it is named or not, or a file is left in its place',
      async (bench) => {
        await bench.driver.setup(bench.fixture.small);
        const before = await bench.fixture.census?.();
        const given = await bench.fill();
        for (const [index, attachment] of [...given.values()].entries()) {
          await bench.removeNetns(attachment);
          const { netns, ...without } = attachment;
          const left = netns !== undefined && index % 3 === 2;
          if (left) await writeFile(netns, '', { flag: 'wx' });
          await bench.driver.del(index % 3 === 0 || netns === undefined ? without : { ...without, netns });
          if (left) await rm(netns);
        }
        await bench.cleanAs(before);
        const again = await bench.fill();
        expect(again.size).toBe(given.size);
        await bench.empty(again.values());
      },
      ['addresses'],
    );

    test(
      'gives 50 at once an address each',
      async (bench) => {
        await bench.driver.setup(bench.fixture.node);
        const attachments = await Promise.all(Array.from({ length: 50 }, () => bench.attachment()));
        const results = await Promise.all(attachments.map((attachment) => bench.driver.add(attachment)));
        expect(new Set(results.map((result) => result.ips[0])).size).toBe(50);
        await Promise.all(attachments.map((attachment) => bench.driver.check(attachment)));
        await Promise.all(attachments.map((attachment) => bench.del(attachment)));
      },
      ['addresses'],
    );

    test(
      'leaks nothing over hundreds of rounds',
      async (bench) => {
        await bench.driver.setup(bench.fixture.small);
        await bench.del((await bench.add()).attachment); // what the first one makes for all, such as a bridge, stays
        const before = await bench.fixture.census?.();
        const held = new Map<string, string>();
        const workers = Array.from({ length: 3 }, async (_, worker) => {
          for (let round = worker; round < (bench.fixture.cycles ?? 300); round += 3) {
            const { attachment, ip } = await bench.add();
            expect(held.get(ip), `${ip} is held`).toBeUndefined();
            held.set(ip, attachment.containerId);
            held.delete(ip); // before del: from then on it may be given to another
            await bench.del(attachment);
          }
        });
        await Promise.all(workers);
        await bench.cleanAs(before);
      },
      ['addresses'],
    );

    test(
      'says when it is exhausted, and recovers',
      async (bench) => {
        await bench.driver.setup(bench.fixture.small);
        const given = await bench.fill();
        expect(given.size).toBeGreaterThanOrEqual(3);
        const refused = await bench.attachment();
        await expect(bench.driver.add(refused)).rejects.toEqual(refusal('Exhausted'));
        const [ip, freed] = [...given].at(1) ?? expect.fail('nothing was given');
        await bench.del(freed);
        given.delete(ip);
        expect((await bench.driver.add(refused)).ips[0]).toBe(ip);
        for (const attachment of given.values()) await bench.driver.check(attachment);
        await bench.empty([...given.values(), refused]);
      },
      ['addresses'],
    );

    test(
      'collects what nobody holds, by container and interface',
      async (bench) => {
        await bench.driver.setup(bench.fixture.small);
        const given = [...(await bench.fill())];
        const kept = given.filter((_, index) => index % 2 === 0);
        const dropped = given.filter((_, index) => index % 2 === 1);
        await bench.driver.gc(kept.map(([, { containerId, ifName }]) => ({ containerId, ifName })));
        for (const [, attachment] of kept) await bench.driver.check(attachment);
        for (const [, attachment] of dropped) await expect(bench.driver.check(attachment)).rejects.toEqual(refusal('Broken'));
        const refilled = await bench.fill();
        expect([...refilled.keys()].sort()).toEqual(dropped.map(([ip]) => ip).sort());
        await bench.driver.gc([]);
        const all = await bench.fill();
        expect(all.size).toBe(given.length);
        const { containerId } = [...all.values()][0] ?? expect.fail('nothing was given');
        await bench.driver.gc([{ containerId, ifName: 'other0' }]);
        const anew = await bench.fill();
        expect(anew.size).toBe(given.length);
        await bench.empty([...given.map(([, attachment]) => attachment), ...refilled.values(), ...all.values(), ...anew.values()]);
      },
      ['addresses'],
    );

    test('refuses names that could lead elsewhere', async (bench) => {
      await bench.driver.setup(bench.fixture.node);
      for (const bad of [{ containerId: '../../etc' }, { containerId: '' }, { ifName: 'a/b' }, { ifName: '' }]) {
        await expect(bench.driver.add(await bench.attachment(bad))).rejects.toEqual(refusal('InvalidConfig'));
      }
    });

    test('leaves nothing of an add that was aborted', async (bench) => {
      await bench.driver.setup(bench.fixture.small);
      await bench.del((await bench.add()).attachment);
      const before = await bench.fixture.census?.();
      const attachment = await bench.attachment();
      await expect(bench.driver.add(attachment, { signal: AbortSignal.abort() })).rejects.toThrow();
      const late = new AbortController();
      const adding = bench.driver.add(attachment, { signal: late.signal });
      late.abort();
      await adding.then(
        () => bench.driver.check(attachment),
        () => undefined,
      );
      await bench.del(attachment);
      await bench.cleanAs(before);
    });

    test(
      'goes on after a restart and gives nothing twice',
      async (bench) => {
        await bench.driver.setup(bench.fixture.small);
        const first = [await bench.add(), await bench.add()];
        await bench.restart();
        await bench.driver.setup(bench.fixture.small);
        for (const { attachment } of first) await bench.driver.check(attachment);
        const again = await bench.driver.add(first[0]?.attachment ?? expect.fail()).then(
          (result) => result.ips[0],
          (error: unknown) => {
            expect(error).toBeInstanceOf(NetworkError);
            return undefined;
          },
        );
        if (again !== undefined) expect(again).toBe(first[0]?.ip);
        const rest = await bench.fill();
        for (const { ip } of first) expect(rest.has(ip), `${ip} was given twice`).toBe(false);
        await bench.empty([...first.map(({ attachment }) => attachment), ...rest.values()]);
        const all = await bench.fill();
        expect(all.size).toBe(rest.size + first.length);
        await bench.empty(all.values());
      },
      ['restart', 'addresses'],
    );

    test(
      'frees with gc what an add held when it was killed',
      async (bench) => {
        await bench.driver.setup(bench.fixture.small);
        const all = await bench.fill();
        await bench.empty(all.values());
        const before = await bench.fixture.census?.();
        const kept = await bench.add();
        await bench.restart();
        const crashed: Attachment[] = [];
        for (let count = 0; count < 5; count++) {
          const attachment = await bench.attachment();
          crashed.push(attachment);
          await bench.fixture.crashAdd?.(attachment, bench.fixture.small);
          if (count % 2 === 1) await bench.removeNetns(attachment);
        }
        await bench.restart();
        await bench.driver.setup(bench.fixture.small);
        await bench.driver.gc([{ containerId: kept.attachment.containerId, ifName: kept.attachment.ifName }]);
        await bench.driver.check(kept.attachment);
        const rest = await bench.fill();
        expect(rest.has(kept.ip)).toBe(false);
        expect(rest.size).toBe(all.size - 1);
        await bench.empty([kept.attachment, ...rest.values(), ...crashed]);
        await bench.cleanAs(before);
      },
      ['restart', 'crash', 'addresses'],
    );
  });
}
