import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { HostRequest } from '@oarlock/cluster/composition/plan';
import { parseClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { HostAllocation, loopbackRanges, partInUse } from '@oarlock/cluster/composition/host-allocation';
import { HostClaims } from '@oarlock/cluster/process/host-claims';
import { slot } from '@oarlock/kernel/slot';
import { z } from 'zod';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const roles = ['apiserver', 'controllers', 'scheduler', 'kubelet', 'proxy'] as const;
const request = (spec = '{}', changes: Partial<HostRequest> = {}): HostRequest => ({
  file: parseClusterFile(`apiVersion: oarlock.dev/v1\nkind: Cluster\nspec: ${spec}\n`, 'cluster.yaml'),
  roles,
  serviceCIDR: '127.96.0.0/16',
  isShared: false,
  ...changes,
});

const pluginWithPart = slot.one('exclusive/v1').plugin({
  id: 'exclusive-part',
  config: z.strictObject({ part: z.string() }),
  exclusiveParts: ({ part }) => [part],
  create: () => ({}),
});

/** The names that are claimed on a host, for several instances. */
class Host {
  readonly #claimed = new Set<string>();
  #nextFree = 40_000;

  claims() {
    const own = new Set<string>();
    const claim = (name: string) => {
      if (this.#claimed.has(name)) return Promise.resolve(false);
      this.#claimed.add(name);
      own.add(name);
      return Promise.resolve(true);
    };
    return {
      claim,
      claimPort: async (preferred: number | undefined) => {
        if (preferred !== undefined && (await claim(`tcp/${preferred}`))) return preferred;
        return this.#nextFree++;
      },
      list: (prefix: string) => Promise.resolve([...this.#claimed].filter((name) => name.startsWith(prefix))),
      release: () => {
        for (const name of own) this.#claimed.delete(name);
      },
    };
  }
}

describe('HostAllocation', () => {
  let host: Host;
  let directory: string;
  beforeEach(async () => {
    host = new Host();
    directory = await mkdtemp(join(tmpdir(), 'oarlock-addresses-'));
  });
  afterEach(async () => {
    await rm(directory, { recursive: true, force: true });
  });
  const open = (name: string, port?: number) =>
    new HostAllocation({ dataDir: join(directory, name), port, isRemote: false, claims: host.claims() });

  it('gives clusters of one host different ports and ranges', async () => {
    expect(await open('a').allocate(request())).toEqual({ port: 6443, kubeletPort: 10_250 });
    const second = open('b');
    expect(await second.allocate(request())).toEqual({ port: 40_000, kubeletPort: 40_001, loopback: loopbackRanges(1) });
    expect(second.notices).toEqual(['port 6443 is in use by another program: the API server listens on port 40000, also after a restart']);
  });

  it('chooses a free port for port 0 of the file, and another one at the next start', async () => {
    const file = '{ server: { address: 0.0.0.0, port: 0 } }';
    await mkdir(join(directory, 'a'));
    const first = open('a');
    expect(await first.allocate(request(file))).toMatchObject({ port: 40_000 });
    await first.save();
    first.release();
    expect(await open('a').allocate(request(file))).toMatchObject({ port: 40_001 });
    // the command line takes precedence
    expect((await open('b', 7443).allocate(request(file))).port).toBe(7443);
  });

  it('keeps the choice for the next start, and reports a port that is no longer free', async () => {
    await open('other').allocate(request());
    await mkdir(join(directory, 'a'));
    const first = open('a');
    const chosen = await first.allocate(request());
    await first.save();
    first.release();
    const again = open('a');
    expect(await again.allocate(request())).toEqual(chosen);
    expect(again.notices).toEqual([]);
    const third = open('a');
    await expect(third.allocate(request())).rejects.toThrow("uses 127.97.0.0/16, the range of this cluster's Services");
    expect(third.notices).toEqual([
      'port 40000 is in use by another program: the API server listens on port 40002, also after a restart; copies of its kubeconfig need the new port',
    ]);
  });

  it('gives a cluster of an earlier release, which kept no addresses, the ranges that its Services have', async () => {
    await mkdir(join(directory, 'a', 'pki'), { recursive: true });
    await open('other').allocate(request());
    await expect(open('a').allocate(request())).rejects.toThrow('uses 127.96.0.0/16');
  });

  it('chooses nothing that the file or the command line determines', async () => {
    const spec = '{ server: { port: 7000 }, settings: { kubelet: { port: 7001 } }, networking: { serviceCIDRs: [127.96.0.0/16] } }';
    expect(await open('a').allocate(request(spec))).toEqual({});
    expect(await open('a', 7002).allocate(request(spec))).toEqual({ port: 7002 });
    expect(await open('a').allocate(request('{}', { roles: ['controllers'] }))).toEqual({});
  });

  it('leaves the ranges of a shared storage, of pods with own namespaces, and of a process of some roles to the file', async () => {
    for (const change of [{ isShared: true }, { serviceCIDR: '10.96.0.0/16' }, { serviceCIDR: undefined }, { roles: roles.slice(0, 4) }])
      expect((await open('a', 7000).allocate(request('{}', change))).loopback).toBeUndefined();
  });

  it('with port 0 uses only free ports and keeps nothing', async () => {
    await mkdir(join(directory, 'a'));
    const allocation = open('a', 0);
    expect(await allocation.allocate(request())).toMatchObject({ port: expect.any(Number), kubeletPort: 0 });
    await allocation.save();
    await expect(readFile(join(directory, 'a', 'addresses.json'))).rejects.toThrow('ENOENT');
  });

  it('rejects a damaged file', async () => {
    await mkdir(join(directory, 'a'));
    await writeFile(join(directory, 'a', 'addresses.json'), '{ "port": 0 }');
    await expect(open('a').allocate(request())).rejects.toThrow('addresses.json is damaged');
  });

  it('lets one cluster at a time have what plugins cannot share', async () => {
    const shared = `the containers of /run/${randomUUID().repeat(4)}`; // longer than the name of an abstract socket
    const part = (text: string, path: string) => ({ plugin: pluginWithPart, config: { part: text }, path });
    const plugins = (own: string) => [
      part(`the bridge ${own}`, 'spec.network'),
      part(shared, 'spec.runtimes.0'),
      part(shared, 'spec.runtimes.1'),
      { plugin: pluginWithPart, config: {}, path: 'spec.policy' }, // invalid, which the plugin host reports
    ];
    const claims = new HostClaims();
    const allocate = (own = new HostClaims()) => new HostAllocation({ dataDir: directory, port: 0, isRemote: false, claims: own });
    await allocate(claims).claimParts(plugins(randomUUID()));
    const second = new HostClaims();
    try {
      expect(await partInUse(part(shared, 'spec.proxy'))).toBe(shared);
      await expect(allocate(second).claimParts(plugins(randomUUID()))).rejects.toMatchObject({
        faults: [
          {
            code: 'StartFailed',
            path: 'spec.runtimes.1',
            message: `another cluster of this host uses ${shared}`,
            remedy: expect.stringContaining('`confDir`'),
          },
        ],
      });
      second.release();
      claims.release();
      await allocate(second).claimParts(plugins(randomUUID()));
    } finally {
      claims.release();
      second.release();
    }
  });

  it('rejects a range of pods that overlaps that of another cluster of the host, and names one that does not', async () => {
    const network = (namespace: string) => {
      const plugin = slot.one('network/v1').plugin({ id: 'n', config: z.strictObject({}), declares: { namespace }, create: () => ({}) });
      return [{ plugin, config: {}, path: 'spec.network' }];
    };
    const claim = (serverUrl: string, podCIDRs: readonly string[], namespace = 'pod') =>
      open('a').claimPodRanges(network(namespace), { podCIDRs, serverUrl });
    await claim('https://a', ['10.244.0.0/16', 'fd00::/64']);
    await claim('https://a', ['10.244.0.0/16']); // another node of the cluster
    await claim('https://b', ['10.245.0.0/16']);
    await claim('https://c', ['10.244.0.0/16'], 'host');
    for (const range of ['10.244.0.0/16', '10.244.7.0/24', '10.0.0.0/8'])
      await expect(claim('https://d', ['fd01::/64', range])).rejects.toMatchObject({
        faults: [
          {
            code: 'StartFailed',
            path: 'spec.networking.podCIDRs',
            message: expect.stringContaining(`the range ${range} of the pods overlaps 10.244.0.0/16, the range of another cluster`),
            remedy: expect.stringMatching(/such as podCIDRs: \[10\.246\.0\.0\/16\]$/),
          },
        ],
      });
    await expect(claim('https://e', ['fd00::1:0/112'])).rejects.toMatchObject({
      faults: [{ message: expect.stringContaining('fd00::/64') }],
    });
  });

  it('finds the claims of other processes by their prefix', async () => {
    const claims = new HostClaims();
    const name = `pods/fd00::/64/${randomUUID()}`;
    try {
      await claims.claim(name);
      expect(await new HostClaims().list(name.slice(0, 20))).toEqual([name]);
      expect(await new HostClaims().list('none/')).toEqual([]);
    } finally {
      claims.release();
    }
  });

  it('has ranges that do not overlap', () => {
    const all = Array.from({ length: 15 }, (_, index) => loopbackRanges(index));
    for (const key of ['nodeAddress', 'serviceCIDR', 'podCIDR', 'loadBalancerCIDR'] as const)
      expect(new Set(all.map((ranges) => ranges[key])).size).toBe(15);
    const octets = all.flatMap(({ serviceCIDR, podCIDR }, index) =>
      [serviceCIDR, ...(index === 0 ? [] : [podCIDR])].map((cidr) => Number(cidr.split('.')[1])),
    );
    expect(new Set([...octets, 111]).size).toBe(octets.length + 1);
    expect(octets.filter((octet) => octet >= 128 && octet < 192)).toEqual([]);
  });
});
