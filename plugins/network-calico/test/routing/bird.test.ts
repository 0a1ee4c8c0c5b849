import { EventEmitter, once } from 'node:events';
import { accessSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { inNetworkNamespace, ip, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Bird } from '../../src/routing/bird.ts';
import { BirdControl } from '../../src/routing/bird-control.ts';
import { birdConfig, neighborsOf, type BgpNode, type BirdOptions } from '../../src/routing/bird-config.ts';
import { calicoConfig } from '../../src/config/calico-config.ts';
import plugin from '../../src/plugin.ts';

const program = '/usr/sbin/bird';
function birdIsMissing(): boolean {
  try {
    accessSync(program);
    return false;
  } catch {
    return process.env['CI'] !== 'true'; // CI must have BIRD installed
  }
}
const missing = birdIsMissing();
const node = (name: string, last: number, reflects = false): BgpNode => ({
  name,
  addresses: [`192.0.2.${last}`, `2001:db8::${last}`],
  reflects,
});
const { bgp } = calicoConfig.parse({});
const options = (more: Partial<BirdOptions> = {}): BirdOptions => ({
  own: node('node-a', 1),
  others: [node('node-b', 2), node('node-c.example', 3)],
  announced: ['10.244.0.0/26', '10.244.9.9/32', 'fd00:10::/122'],
  pools: ['10.244.0.0/16', 'fd00:10::/64'],
  bgp,
  interfacePrefix: 'cali',
  logFile: '/dev/null',
  ...more,
});

it('reports a reset control connection as the exit of BIRD', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'bird-'));
  const path = join(directory, 'bird.ctl');
  // unread input turns the close into a reset
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    socket.write('0001 BIRD ready.\n');
    reset = () => socket.destroy();
  });
  let reset: () => void = () => undefined;
  server.listen(path);
  await once(server, 'listening');
  const open = new EventEmitter();
  const control = await BirdControl.open(path, () => open.emit('ended'));
  const ended = once(open, 'ended');
  const answer = control.command('configure');
  reset();
  await expect(answer).rejects.toThrow('BIRD exited before it replied');
  await ended;
  server.close();
  await rm(directory, { recursive: true });
});

describe('BGP peers', () => {
  const all = [node('a', 1), node('b', 2), node('c', 3)];
  const names = (own: BgpNode, others: readonly BgpNode[], more: Partial<typeof bgp> = {}) =>
    neighborsOf(own, others, { ...bgp, ...more }).map((each) => `${each.node.name}${each.isClient ? ' (client)' : ''}`);
  it('are all other nodes, none, or the route reflectors', () => {
    const [a, b, c] = all as [BgpNode, BgpNode, BgpNode];
    const reflector = { ...c, reflects: true };
    expect(names(a, [b, c])).toEqual(['b', 'c']);
    expect(names(a, [b, c], { mesh: false })).toEqual([]);
    expect(names(a, [b, reflector], { reflectors: 'bgp=reflector' })).toEqual(['c']);
    expect(names(reflector, [a, b], { reflectors: 'bgp=reflector' })).toEqual(['a (client)', 'b (client)']);
    expect(names(a, [b, c], { reflectors: 'bgp=reflector' })).toEqual(['b', 'c']); // no node is a route reflector yet
  });
});

it('probe reports missing prerequisites of BGP', async () => {
  const answer = await plugin.probe?.(plugin.config.parse({ routes: 'bgp', bgp: { program: '/nowhere/bird' } }));
  expect(answer).toMatchObject({
    available: false,
    reason: expect.stringMatching(/\/nowhere\/bird not found \(Debian: bird2\)|root|Linux/),
  });
});

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe.skipIf(missing)('BIRD', () => {
    let directory: string;
    beforeEach(async () => {
      directory = await mkdtemp(join(tmpdir(), 'bird-'));
      ip('link', 'set', 'lo', 'up');
    });
    afterEach(async () => {
      const control = await BirdControl.open(join(directory, 'bird.ctl'), () => undefined).catch(() => undefined);
      await control?.command('down');
      control?.close();
      await rm(directory, { recursive: true, force: true });
    });

    const cases: readonly (readonly [string, Partial<BirdOptions>])[] = [
      ['a mesh', {}],
      ['a route reflector', { own: node('node-a', 1, true), bgp: { ...bgp, reflectors: 'r=1' } }],
      ['routers', { bgp: { ...bgp, mesh: false, peers: [{ address: '192.0.2.99', asNumber: 65_001 }] } }],
      ['one family', { own: { ...node('node-a', 1), addresses: ['192.0.2.1'] }, pools: ['10.244.0.0/16'] }],
      ['a node with an IPv6 address only', { own: { ...node('node-a', 1), addresses: ['2001:db8::1'] } }],
    ];
    it.each(cases)('accepts the configuration of %s', async (_, more) => {
      const file = join(directory, 'try.conf');
      await writeFile(file, birdConfig(options(more)));
      expect(await runProgram(systemClock, program, ['-p', '-c', file], { timeoutMs: 10_000 })).toMatchObject({ exitCode: 0, stderr: '' });
    });

    const open = () => new Bird({ program, directory, clock: systemClock, log: silentLogger });
    const pid = async () => Number(await readFile(join(directory, 'bird.pid'), 'utf8').catch(() => '0'));
    const protocols = async () => {
      const control = await BirdControl.open(join(directory, 'bird.ctl'), () => undefined);
      const lines = await control.command('show protocols');
      control.close();
      return lines.join('\n');
    };

    it('starts, is reconfigured, is restarted after a kill, and is found again', async () => {
      const bird = open();
      await bird.configure(birdConfig(options()));
      const first = await pid();
      expect(await protocols()).toContain('n_node_2d_b_4');
      await bird.configure(birdConfig(options({ others: [node('node-d', 4)] })));
      expect(await protocols()).toContain('n_node_2d_d_4');
      expect(await protocols()).not.toContain('n_node_2d_b_4');
      expect(await pid()).toBe(first);
      await expect(bird.configure('nonsense;')).rejects.toMatchObject({ code: 'InvalidConfig' });
      process.kill(first, 'SIGKILL');
      await expect.poll(pid).not.toBe(first);
      await expect.poll(() => protocols().catch(() => '')).toContain('n_node_2d_d_4');
      const second = await pid();
      await bird.stop();
      const next = open();
      await next.configure(birdConfig(options()));
      expect(await pid()).toBe(second);
      await next.stop();
      await open().shutDown();
      // BIRD confirms the shutdown, and ends when it has removed its routes
      const listens = async (): Promise<boolean> => {
        const control = await BirdControl.open(join(directory, 'bird.ctl'), () => undefined).catch(() => undefined);
        control?.close();
        return control !== undefined;
      };
      await expect.poll(listens).toBe(false);
    });
  });
