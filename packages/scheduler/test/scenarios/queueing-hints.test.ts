import { csiDrivers, csiNodes, nodes, persistentVolumeClaims, persistentVolumes, pods, storageClasses } from '@oarlock/api/resources';
import type { Node, Pod, PodSpec } from '@oarlock/api/types/core-v1';
import { afterEach, describe, expect, it } from 'vitest';
import { node, pod, testScheduler } from '../support/test-scheduler.ts';

type World = ReturnType<typeof testScheduler>;
let w: World;
afterEach(() => w.stop());

const change = (name: string, patch: object) => w.api.client().patch(nodes, { name }, 'merge', patch);
const changeStatus = (status: object) => w.api.client().patch(nodes, { name: 'n' }, 'merge', { status }, { subresource: 'status' });
const heartbeat = () => changeStatus({ conditions: [{ type: 'Ready', status: 'True' }] });
const asking = (cpu: string, more: Partial<PodSpec> = {}): Partial<PodSpec> => ({
  containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu } } }],
  ...more,
});
const port = (hostPort: number, more: Partial<PodSpec> = {}): Partial<PodSpec> => ({
  containers: [{ name: 'c', image: 'a:1', ports: [{ containerPort: 80, hostPort }] }],
  ...more,
});
const web = { app: 'web' };
const term = { topologyKey: 'zone', labelSelector: { matchLabels: web } };
const near: Partial<PodSpec> = { affinity: { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [term] } } };
const apart: Partial<PodSpec> = { affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [term] } } };
const spread: Partial<PodSpec> = {
  topologySpreadConstraints: [{ ...term, maxSkew: 1, whenUnsatisfiable: 'DoNotSchedule' }],
};
const claim = (name: string) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { namespace: 'd', name, annotations: { 'pv.kubernetes.io/bind-completed': 'yes' } },
  spec: { accessModes: ['ReadWriteOnce'], storageClassName: '', volumeName: name, resources: { requests: { storage: '1Gi' } } },
  status: { phase: 'Bound' },
});
const volume = (name: string, more: object) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: { name },
  spec: { accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' }, ...more },
  status: { phase: 'Bound' },
});
const using = (name: string): Partial<PodSpec> => ({ volumes: [{ name, persistentVolumeClaim: { claimName: name } }] });
const submit = (name: string, spec: Partial<PodSpec> = {}, labels: Record<string, string> = {}) =>
  w.submit(pod(name, { ...spec, nodeName: 'n' }, labels));
const remove = (name: string) => w.api.client().delete(pods, { namespace: 'd', name }, { gracePeriodSeconds: 0 });

interface Case {
  readonly nodes?: readonly Node[];
  readonly seed?: () => void;
  readonly pod: Partial<PodSpec>;
  readonly labels?: Record<string, string>;
  /** Events of which none helps. */
  readonly vain: readonly (() => Promise<unknown>)[];
  readonly helps: () => Promise<unknown>;
}
const bound = (name: string, spec: Partial<PodSpec> = {}, labels: Record<string, string> = {}): Pod =>
  pod(name, { ...spec, nodeName: 'n' }, labels);

const cases: Readonly<Record<string, Case>> = {
  NodeUnschedulable: {
    nodes: [node('n', {}, { spec: { unschedulable: true } })],
    pod: {},
    vain: [heartbeat, () => change('n', { metadata: { labels: { a: 'b' } } })],
    helps: () => change('n', { spec: { unschedulable: null } }),
  },
  TaintToleration: {
    nodes: [node('n', {}, { spec: { taints: [{ key: 'a', value: 'b', effect: 'NoSchedule' }] } })],
    pod: {},
    vain: [heartbeat, () => change('n', { spec: { taints: [{ key: 'c', effect: 'NoExecute' }] } })],
    helps: () => change('n', { spec: { taints: [] } }),
  },
  NodeAffinity: {
    pod: { nodeSelector: { disk: 'ssd' } },
    vain: [heartbeat, () => change('n', { metadata: { labels: { disk: 'hdd' } } })],
    helps: () => change('n', { metadata: { labels: { disk: 'ssd' } } }),
  },
  NodePorts: {
    seed: () => w.api.seed(pods, bound('80', port(80)), bound('81', port(81))),
    pod: port(80),
    vain: [heartbeat, () => remove('81')],
    helps: () => remove('80'),
  },
  NodeResourcesFit: {
    nodes: [node('n', {}, { cpu: '2' })],
    seed: () => w.api.seed(pods, bound('1', asking('2'))),
    pod: asking('1'),
    vain: [
      heartbeat,
      () => changeStatus({ allocatable: { memory: '16Gi' } }),
      () => w.api.client().patch(pods, { namespace: 'd', name: '1' }, 'merge', { metadata: { labels: { a: 'b' } } }),
      () => w.api.client().create(nodes, node('small', {}, { cpu: '500m' })),
    ],
    helps: () => changeStatus({ allocatable: { cpu: '3' } }),
  },
  'InterPodAffinity, affinity': {
    nodes: [node('n', { zone: 'x' })],
    pod: near,
    vain: [heartbeat, () => submit('other')],
    helps: () => submit('1', {}, web),
  },
  'InterPodAffinity, anti-affinity': {
    nodes: [node('n', { zone: 'x' })],
    seed: () => w.api.seed(pods, bound('1', {}, web), bound('other')),
    pod: apart,
    vain: [heartbeat, () => remove('other'), () => submit('different', {}, { app: 'db' })],
    helps: () => remove('1'),
  },
  'InterPodAffinity, anti-affinity of existing pods': {
    nodes: [node('n', { zone: 'x' })],
    seed: () => w.api.seed(pods, bound('1', apart), bound('other')),
    pod: {},
    labels: web,
    vain: [heartbeat, () => remove('other')],
    helps: () => remove('1'),
  },
  PodTopologySpread: {
    nodes: [node('n', { zone: 'x' }), node('full', { zone: 'y' }, { spec: { unschedulable: true } })],
    seed: () => w.api.seed(pods, bound('1', {}, web), bound('other')),
    pod: spread,
    labels: web,
    vain: [heartbeat, () => remove('other'), () => submit('different', {}, { app: 'db' })],
    helps: () => remove('1'),
  },
  VolumeBinding: {
    seed() {
      w.api.seed(persistentVolumeClaims, claim('v'));
      const required = { nodeSelectorTerms: [{ matchExpressions: [{ key: 'rack', operator: 'In', values: ['1'] }] }] };
      w.api.seed(persistentVolumes, volume('v', { nodeAffinity: { required } }));
    },
    pod: using('v'),
    vain: [heartbeat, () => w.api.client().create(persistentVolumeClaims, claim('other'))],
    helps: () => change('n', { metadata: { labels: { rack: '1' } } }),
  },
  NodeVolumeLimits: {
    seed() {
      for (const name of ['v', 'u']) {
        w.api.seed(persistentVolumeClaims, claim(name));
        w.api.seed(persistentVolumes, volume(name, { csi: { driver: 'd', volumeHandle: name } }));
      }
      w.api.seed(storageClasses);
      w.api.seed(csiDrivers);
      const drivers = [{ name: 'd', nodeID: 'n', allocatable: { count: 1 } }];
      w.api.seed(csiNodes, { apiVersion: 'storage.k8s.io/v1', kind: 'CSINode', metadata: { name: 'n' }, spec: { drivers } });
      w.api.seed(pods, bound('1', using('u')), bound('other'));
    },
    pod: using('v'),
    vain: [
      heartbeat,
      () => remove('other'),
      () => w.api.client().patch(csiNodes, { name: 'n' }, 'merge', { metadata: { labels: { a: 'b' } } }),
    ],
    helps: () =>
      w.api
        .client()
        .patch(csiNodes, { name: 'n' }, 'merge', { spec: { drivers: [{ name: 'd', nodeID: 'n', allocatable: { count: 2 } }] } }),
  },
};

describe('an unschedulable pod is retried on events that may help, and only then', () => {
  it.each(Object.entries(cases))('%s', async (plugin, { nodes: some = [node('n')], seed, pod: spec, labels, vain, helps }) => {
    w = testScheduler();
    w.seedNodes(...some);
    seed?.();
    await w.start();
    await w.submit(pod('p', spec, labels));
    const failureCount = () => w.told.filter(({ about, reason }) => about === 'p' && reason === 'FailedScheduling').length;
    expect(w.explain(pod('q', spec, labels)).map(({ rejectedBy }) => rejectedBy)).toContain(plugin.split(',')[0]);
    expect(failureCount()).toBe(1);
    for (const [index, each] of vain.entries()) {
      await each();
      await w.clock.advance(11_000);
      expect(failureCount(), `after ${index}`).toBe(1);
    }
    await helps();
    await w.clock.advance(11_000);
    expect(w.placeOf('p')).toBe('n');
  });
});
