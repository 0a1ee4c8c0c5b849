import { qosClass } from '@oarlock/api/component-helpers/qos-class';
import type { Pod } from '@oarlock/api/types/core-v1';
import { describe, expect, it } from 'vitest';
import { parseResolvConf, podDnsConfig } from '../../src/pod/environment/dns.ts';
import { expand } from '../../src/pod-util/expansion.ts';
import { nodeHostsFile, podHostname } from '../../src/pod/environment/hosts-file.ts';
import { applyDefaultImageTag } from '@oarlock/api/component-helpers/image-reference';
import { containerHash, kubeletOwnerId } from '../../src/runtime/labels.ts';
import { safePart } from '../../src/config/node-paths.ts';
import { allocatableOf } from '../../src/node/internal/node-status.ts';
import { cpuQuota, cpuShares, linuxResources, oomScoreAdjust, podRequest } from '../../src/pod-util/resources.ts';
import { formatDelay, RestartBackoff } from '../../src/pod-util/restart-backoff.ts';
import { containerSecurityContext, namespaceOptions, verifyRunAsNonRoot } from '../../src/kuberuntime/internal/security-context.ts';
import { statusPatch } from '../../src/status/status-patch.ts';
import { parseQuantity } from '@oarlock/api/values/quantity';
import { app, podOf } from '../support/bench.ts';

describe('expansion', () => {
  const lookup = (name: string) => ({ A: 'a', B: '$(A)', EMPTY: '' })[name];
  it.each([
    ['$(A)', 'a'],
    ['x$(A)y$(B)', 'xay$(A)'],
    ['$$(A)', '$(A)'],
    ['$$$(A)', '$a'],
    ['$(EMPTY)|', '|'],
    ['$(NONE)', '$(NONE)'],
    ['$(A', '$(A'],
    ['$', '$'],
    ['a$', 'a$'],
    ['$x $(A)', '$x a'],
    ['no', 'no'],
  ])('%s is %s', (text, wanted) => {
    expect(expand(text, lookup)).toBe(wanted);
  });
});

describe('podDnsConfig', () => {
  const host = parseResolvConf('# by hand\nnameserver 9.9.9.9\nsearch old.example\nsearch corp.example. lan\noptions timeout:1 rotate\n');
  const cluster = { domain: 'cluster.local', servers: ['10.96.0.10'] };
  const of = (spec: Pod['spec'] extends infer S ? Partial<NonNullable<S>> : never) => podDnsConfig(podOf('web', spec), cluster, host).dns;

  it('follows the dnsPolicy', () => {
    expect(of({})).toEqual({
      servers: ['10.96.0.10'],
      searches: ['default.svc.cluster.local', 'svc.cluster.local', 'cluster.local', 'corp.example', 'lan'],
      options: ['ndots:5'],
    });
    expect(of({ dnsPolicy: 'Default' })).toEqual(host);
    expect(of({ hostNetwork: true })).toEqual(host);
    expect(of({ hostNetwork: true, dnsPolicy: 'ClusterFirstWithHostNet' }).servers).toEqual(['10.96.0.10']);
    expect(of({ dnsPolicy: 'None', dnsConfig: { nameservers: ['1.1.1.1'], searches: ['a'], options: [{ name: 'edns0' }] } })).toEqual({
      servers: ['1.1.1.1'],
      searches: ['a'],
      options: ['edns0'],
    });
    expect(of({ dnsConfig: { options: [{ name: 'ndots', value: '2' }], nameservers: ['10.96.0.10', '1.1.1.1'] } })).toMatchObject({
      servers: ['10.96.0.10', '1.1.1.1'],
      options: ['ndots:2'],
    });
  });

  it("uses the host's servers if the cluster has none", () => {
    const missing = { domain: 'cluster.local', servers: [] };
    const { dns, warnings } = podDnsConfig(podOf('web', {}), missing, host);
    expect(dns).toEqual(host);
    expect(warnings).toEqual([
      {
        reason: 'MissingClusterDNS',
        message: expect.stringMatching(
          /^pod: "web_default\(.*\)"\. kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy\. Falling back to "Default" policy\.$/,
        ),
      },
    ]);
    for (const dnsPolicy of ['Default', 'None']) expect(podDnsConfig(podOf('web', { dnsPolicy }), missing, host).warnings).toEqual([]);
  });

  it('reports omitted entries', () => {
    const { dns, warnings } = podDnsConfig(
      podOf('web', { dnsPolicy: 'None', dnsConfig: { nameservers: ['1', '2', '3', '4'] } }),
      cluster,
      host,
    );
    expect(dns.servers).toEqual(['1', '2', '3']);
    expect(warnings).toEqual([
      {
        reason: 'DNSConfigForming',
        message: 'Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1 2 3',
      },
    ]);
  });
});

describe('podHostname', () => {
  const node = { hostname: 'machine', domain: 'cluster.local' };
  it("returns the pod's name, the hostname of its spec, or the node's", () => {
    expect(podHostname(podOf(`${'a'.repeat(62)}-b`), node)).toEqual({ hostname: 'a'.repeat(62), domain: '' });
    expect(podHostname(podOf('web-0', { hostname: 'db', subdomain: 'team' }), node)).toEqual({
      hostname: 'db',
      domain: 'team.default.svc.cluster.local',
    });
    expect(podHostname(podOf('web', { subdomain: 'team', setHostnameAsFQDN: true }), node).hostname).toBe(
      'web.team.default.svc.cluster.local',
    );
    expect(podHostname(podOf('web', { hostNetwork: true }), node).hostname).toBe('machine');
    expect(nodeHostsFile(podOf('web', { hostAliases: [{ ip: '1.2.3.4', hostnames: ['x'] }] }), '127.0.0.1 localhost\n')).toBe(
      '# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n\n# Entries added by HostAliases.\n1.2.3.4\tx\n',
    );
  });
});

describe('resources', () => {
  const asking = (resources: object) => podOf('web', { containers: [app({ resources })] });
  it('determine the QoS class', () => {
    expect(qosClass(podOf('web').spec)).toBe('BestEffort');
    expect(qosClass(asking({ limits: { cpu: '1', memory: '1Gi' } }).spec)).toBe('Guaranteed');
    expect(qosClass(asking({ limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '500m' } }).spec)).toBe('Burstable');
    expect(qosClass(asking({ requests: { cpu: '0' } }).spec)).toBe('BestEffort');
    expect(
      qosClass(podOf('web', { containers: [app({ resources: { limits: { cpu: '1', memory: '1Gi' } } }), app({ name: 'other' })] }).spec),
    ).toBe('Burstable');
  });

  it('are summed with sidecars and the peak of initialization', () => {
    const cpu = (request: string) => ({ resources: { requests: { cpu: request } } });
    const pod = podOf('web', {
      containers: [app(cpu('100m')), app({ name: 'b', ...cpu('200m') })],
      initContainers: [
        app({ name: 'side', restartPolicy: 'Always', ...cpu('50m') }),
        app({ name: 'big', ...cpu('400m') }),
        app({ name: 'late', restartPolicy: 'Always', ...cpu('10m') }),
      ],
      overhead: { cpu: '5m' },
    });
    expect(podRequest(pod, 'cpu').toString()).toBe('455m');
  });

  it('are converted to cgroup settings', () => {
    expect([cpuShares(0), cpuShares(100), cpuShares(1_000_000_000), cpuQuota(500), cpuQuota(1)]).toEqual([2, 102, 262_144, 50_000, 1000]);
    const pod = asking({ limits: { cpu: '500m', memory: '64Mi' }, requests: { cpu: '250m' } });
    expect(linuxResources(pod, pod.spec?.containers[0] ?? app(), { memoryCapacity: 2 ** 30, cgroupV2: true })).toEqual({
      cpuShares: 256,
      cpuPeriod: 100_000,
      cpuQuota: 50_000,
      memoryLimitBytes: 64 * 2 ** 20,
      oomScoreAdj: 937,
      unified: { 'memory.oom.group': '1' },
    });
    const guaranteed = asking({ limits: { cpu: '1', memory: '1Gi' } });
    expect(oomScoreAdjust(guaranteed, guaranteed.spec?.containers[0] ?? app(), 2 ** 30)).toBe(-997);
    expect(oomScoreAdjust(podOf('web'), app(), 2 ** 30)).toBe(1000);
  });

  it('are not allocatable if they are reserved', () => {
    const left = allocatableOf(
      { cpu: parseQuantity('4'), memory: parseQuantity('8Gi'), 'ephemeral-storage': parseQuantity('100') },
      { cpu: '500m' },
      { memory: '1Gi', disk: '10%' },
    );
    expect(Object.fromEntries(Object.entries(left).map(([name, amount]) => [name, amount.toString()]))).toEqual({
      cpu: '3500m',
      memory: '7Gi',
      'ephemeral-storage': '90',
    });
  });
});

describe('RestartBackoff', () => {
  it('doubles up to the longest delay and starts over after twice that time without a failure', () => {
    const backoff = new RestartBackoff();
    const delays: number[] = [];
    let now = 1_000_000;
    for (let round = 0; round < 7; round += 1) {
      backoff.next('a', now, now);
      delays.push(backoff.delay('a') / 1000);
      now += backoff.delay('a') + 1000;
    }
    expect(delays).toEqual([10, 20, 40, 80, 160, 300, 300]);
    expect(backoff.remaining('a', now, now)).toBe(300_000);
    const later = now + 601_000;
    expect(backoff.remaining('a', later, later)).toBe(0);
    backoff.next('a', later, later);
    expect(backoff.delay('a')).toBe(10_000);
    expect([formatDelay(10_000), formatDelay(80_000), formatDelay(300_000)]).toEqual(['10s', '1m20s', '5m0s']);
  });
});

describe('image names', () => {
  it('applies the default tag and rejects invalid names', () => {
    expect(['nginx', 'nginx:1', 'localhost:5000/a/b', 'a.example/b@sha256:' + 'a'.repeat(64)].map(applyDefaultImageTag)).toEqual([
      'nginx:latest',
      'nginx:1',
      'localhost:5000/a/b:latest',
      'a.example/b@sha256:' + 'a'.repeat(64),
    ]);
    for (const bad of ['', 'a b', '../x', 'UPPER/:', '-x', 'a:b:c d'])
      expect(() => applyDefaultImageTag(bad), bad).toThrow(/couldn't parse image name/);
  });
});

describe('security context', () => {
  const facts = { rootDir: '/root', nodeNetwork: false };
  it('confines a container unless it is privileged', () => {
    const pod = podOf('web', {
      securityContext: {
        runAsUser: 7,
        fsGroup: 9,
        supplementalGroups: [8],
        seccompProfile: { type: 'Localhost', localhostProfile: 'p.json' },
      },
    });
    const plain = containerSecurityContext(
      pod,
      app({ securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] }, readOnlyRootFilesystem: true } }),
      { image: undefined, facts },
    );
    expect(plain).toMatchObject({
      privileged: false,
      runAsUser: 7,
      supplementalGroups: [8, 9],
      noNewPrivs: true,
      readonlyRootfs: true,
      capabilities: { add: [], drop: ['ALL'] },
      seccomp: { type: 'Localhost', localhostRef: '/root/seccomp/p.json' },
    });
    expect(plain.maskedPaths).toContain('/proc/kcore');
    const privileged = containerSecurityContext(pod, app({ securityContext: { privileged: true } }), { image: undefined, facts });
    expect(privileged).toMatchObject({ privileged: true, seccomp: { type: 'Unconfined' } });
    expect(privileged.maskedPaths).toBeUndefined();
    expect(namespaceOptions(podOf('web', { hostPID: true, hostIPC: true, hostNetwork: true }), facts)).toEqual({
      network: 'NODE',
      pid: 'NODE',
      ipc: 'NODE',
    });
    expect(namespaceOptions(podOf('web'), facts, 'id')).toEqual({ network: 'POD', pid: 'TARGET', ipc: 'POD', targetId: 'id' });
  });

  it('rejects root with runAsNonRoot', () => {
    const pod = podOf('web', { securityContext: { runAsNonRoot: true } });
    const image = { id: 'i', repoTags: [], repoDigests: [], sizeBytes: 0 };
    expect(() => verifyRunAsNonRoot(pod, app(), { ...image, uid: 0 })).toThrow(/^container has runAsNonRoot and image will run as root/);
    expect(() => verifyRunAsNonRoot(pod, app(), { ...image, username: 'bob' })).toThrow(/non-numeric user \(bob\)/);
    expect(() => verifyRunAsNonRoot(pod, app(), image)).toThrow(/image will run as root/); // the image has no user
    expect(() => verifyRunAsNonRoot(pod, app({ securityContext: { runAsUser: 0 } }), image)).toThrow(/breaks non-root policy/);
    verifyRunAsNonRoot(pod, app({ securityContext: { runAsUser: 5 } }), { ...image, uid: 0 });
    verifyRunAsNonRoot(pod, app(), { ...image, uid: 5 });
  });
});

describe('names', () => {
  it('of directories are escaped', () => {
    expect(['a', 'a/b', '..', '.', '', '%', 'ü'].map(safePart)).toEqual(['a', 'a%2fb', '%..', '%.', '%', '%25', '%fc']);
  });
  it('of owners and containers are distinct', () => {
    expect(kubeletOwnerId('a', 'b', 'c')).not.toBe(kubeletOwnerId('a', 'bc', ''));
    expect(containerHash({ name: 'a', image: 'b' })).not.toBe(containerHash({ name: 'a', image: 'c' }));
  });
});

describe('statusPatch', () => {
  it('contains the differences and leaves conditions of other components alone', () => {
    const before = {
      phase: 'Running',
      message: 'old',
      podIPs: [{ ip: '1.1.1.1' }, { ip: '2.2.2.2' }],
      podIP: '1.1.1.1',
      conditions: [
        { type: 'Ready', status: 'False', reason: 'ContainersNotReady', message: 'm', lastTransitionTime: 't0' },
        { type: 'example.com/gate', status: 'True' },
        { type: 'PodScheduled', status: 'True', lastTransitionTime: 't0' },
      ],
    };
    const after = {
      phase: 'Running',
      podIPs: [{ ip: '1.1.1.1' }],
      podIP: '1.1.1.1',
      conditions: [
        { type: 'Ready', status: 'True', lastTransitionTime: 't1' },
        { type: 'PodScheduled', status: 'True', lastTransitionTime: 't0' },
      ],
    };
    expect(statusPatch('u', before, after)).toEqual({
      metadata: { uid: 'u' },
      status: {
        message: null,
        podIPs: [{ ip: '1.1.1.1' }, { $patch: 'delete', ip: '2.2.2.2' }],
        conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: 't1', reason: null, message: null }],
      },
    });
    expect(statusPatch('u', before, { ...before, conditions: before.conditions.slice(0, 1) })).toBeUndefined();
  });
});
