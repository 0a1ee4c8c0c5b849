import type { KubeObject } from '@oarlock/api/object';
import { kinds } from '@oarlock/api/kinds';
import { resource } from '@oarlock/api/resource';
import { describe, expect, it } from 'vitest';
import { humanDuration, since } from '../../../src/endpoints/negotiation/table/duration.ts';
import { printerFor } from '../../../src/endpoints/negotiation/table/printers.ts';

const now = Date.parse('2026-06-01T12:00:00Z');
const [second, minute, hour, day] = [1000, 60_000, 3_600_000, 86_400_000];

it.each([
  [-5 * second, '<invalid>'],
  [-1500, '0s'],
  [0, '0s'],
  [119 * second, '119s'],
  [120 * second, '2m'],
  [9 * minute + 59 * second, '9m59s'],
  [10 * minute + 5 * second, '10m'],
  [179 * minute, '179m'],
  [3 * hour, '3h'],
  [7 * hour + 30 * minute, '7h30m'],
  [8 * hour + 30 * minute, '8h'],
  [47 * hour, '47h'],
  [48 * hour, '2d'],
  [3 * day + 5 * hour, '3d5h'],
  [8 * day + 5 * hour, '8d'],
  [729 * day, '729d'],
  [730 * day, '2y'],
  [800 * day, '2y70d'],
  [2920 * day, '8y'],
  [4000 * day, '10y'],
])('%i ms is %s', (milliseconds, text) => {
  expect(humanDuration(milliseconds)).toBe(text);
});

it('returns unknown without a time', () => {
  expect([since(undefined, now), since(null, now), since('', now), since('yesterday', now)]).toEqual([
    '<unknown>',
    '<unknown>',
    '<unknown>',
    '<unknown>',
  ]);
});

/** Returns the cells by the names of their columns. */
function show(group: string, name: string, object: object): Record<string, unknown> {
  const printer = printerFor(resource(group, 'v1', name, 'Any', true));
  const full = { ...object, metadata: { name: 'x', creationTimestamp: '2026-06-01T11:00:00Z', ...(object as KubeObject).metadata } };
  const cells = printer.cells(full as KubeObject, now);
  expect(cells).toHaveLength(printer.columns.length);
  return Object.fromEntries(printer.columns.map((column, i) => [column.name, cells[i]]));
}
const columns = (group: string, name: string) =>
  printerFor(resource(group, 'v1', name, 'Any', true))
    .columns.map((column) => (column.priority === 1 ? `(${column.name})` : column.name))
    .join(' | ');

describe('columns', () => {
  it.each([
    ['', 'pods', 'Name | Ready | Status | Restarts | Age | (IP) | (Node) | (Nominated Node) | (Readiness Gates)'],
    ['apps', 'deployments', 'Name | Ready | Up-to-date | Available | Age | (Containers) | (Images) | (Selector)'],
    ['apps', 'replicasets', 'Name | Desired | Current | Ready | Age | (Containers) | (Images) | (Selector)'],
    [
      'apps',
      'daemonsets',
      'Name | Desired | Current | Ready | Up-to-date | Available | Node Selector | Age | (Containers) | (Images) | (Selector)',
    ],
    ['apps', 'statefulsets', 'Name | Ready | Age | (Containers) | (Images)'],
    ['batch', 'jobs', 'Name | Status | Completions | Duration | Age | (Containers) | (Images) | (Selector)'],
    ['', 'services', 'Name | Type | Cluster-IP | External-IP | Port(s) | Age | (Selector)'],
    ['', 'endpoints', 'Name | Endpoints | Age'],
    ['discovery.k8s.io', 'endpointslices', 'Name | AddressType | Ports | Endpoints | Age'],
    [
      '',
      'nodes',
      'Name | Status | Roles | Age | Version | (Internal-IP) | (External-IP) | (OS-Image) | (Kernel-Version) | (Container-Runtime)',
    ],
    ['', 'events', 'Last Seen | Type | Reason | Object | (Subobject) | (Source) | Message | (First Seen) | (Count) | (Name)'],
    ['', 'namespaces', 'Name | Status | Age'],
    ['resource.k8s.io', 'resourceclaims', 'Name | State | Age'],
    ['resource.k8s.io', 'resourceslices', 'Name | Node | Driver | Pool | Age'],
    ['storage.k8s.io', 'csistoragecapacities', 'Name | StorageClassName | Capacity'],
    ['', 'configmaps', 'Name | Data | Age'],
    ['', 'secrets', 'Name | Type | Data | Age'],
    ['', 'serviceaccounts', 'Name | Age'],
    ['coordination.k8s.io', 'leases', 'Name | Holder | Age'],
    ['networking.k8s.io', 'ingresses', 'Name | Class | Hosts | Address | Ports | Age'],
    [
      '',
      'persistentvolumes',
      'Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | VolumeAttributesClass | Reason | Age | (VolumeMode)',
    ],
    [
      '',
      'persistentvolumeclaims',
      'Name | Status | Volume | Capacity | Access Modes | StorageClass | VolumeAttributesClass | Age | (VolumeMode)',
    ],
    ['storage.k8s.io', 'storageclasses', 'Name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age'],
    ['rbac.authorization.k8s.io', 'roles', 'Name | Created At'],
    ['rbac.authorization.k8s.io', 'rolebindings', 'Name | Role | Age | (Users) | (Groups) | (ServiceAccounts)'],
    ['nobody.example.com', 'things', 'Name | Age'],
  ])('of %s/%s', (group, name, expected) => {
    expect(columns(group, name)).toBe(expected);
  });
});

const container = (name: string, more: object = {}) => ({ name, image: `${name}:1`, ...more });
const running = (name: string, more: object = {}) => ({
  name,
  ready: true,
  restartCount: 0,
  started: true,
  state: { running: { startedAt: '2026-06-01T11:00:00Z' } },
  ...more,
});
const podStatus = (object: object) => {
  const { Ready, Status, Restarts } = show('', 'pods', object);
  return [Ready, Status, Restarts];
};

describe('pod printer', () => {
  const spec = { nodeName: 'n1', containers: [container('a'), container('b')] };

  it('shows the state', () => {
    expect(podStatus({ spec, status: { phase: 'Pending' } })).toEqual(['0/2', 'Pending', '0']);
    expect(podStatus({ spec, status: { phase: 'Running', containerStatuses: [running('a'), running('b')] } })).toEqual([
      '2/2',
      'Running',
      '0',
    ]);
    expect(
      podStatus({ spec, status: { phase: 'Pending', conditions: [{ type: 'PodScheduled', status: 'False', reason: 'SchedulingGated' }] } }),
    ).toEqual(['0/2', 'SchedulingGated', '0']);
    expect(podStatus({ spec, status: { phase: 'Failed', reason: 'Evicted' } })).toEqual(['0/2', 'Evicted', '0']);
  });

  it('shows the reason of the first container and the restarts of the last', () => {
    const crash = running('a', {
      ready: false,
      restartCount: 3,
      state: { waiting: { reason: 'CrashLoopBackOff' } },
      lastState: { terminated: { exitCode: 1, finishedAt: '2026-06-01T11:55:00Z' } },
    });
    expect(podStatus({ spec, status: { phase: 'Running', containerStatuses: [crash, running('b', { restartCount: 2 })] } })).toEqual([
      '1/2',
      'CrashLoopBackOff',
      '5 (5m ago)',
    ]);
    const stopped = (more: object) =>
      podStatus({
        spec,
        status: { phase: 'Running', containerStatuses: [running('a', { ready: false, state: { terminated: more } })] },
      })[1];
    expect([stopped({ exitCode: 0, reason: 'Completed' }), stopped({ exitCode: 3 }), stopped({ exitCode: 137, signal: 9 })]).toEqual([
      'Completed',
      'ExitCode:3',
      'Signal:9',
    ]);
  });

  it('is not Completed while a container runs', () => {
    const statuses = [running('a', { ready: false, state: { terminated: { exitCode: 0, reason: 'Completed' } } }), running('b')];
    expect(podStatus({ spec, status: { phase: 'Running', containerStatuses: statuses } })).toEqual(['1/2', 'NotReady', '0']);
    expect(
      podStatus({ spec, status: { phase: 'Running', containerStatuses: statuses, conditions: [{ type: 'Ready', status: 'True' }] } }),
    ).toEqual(['1/2', 'Running', '0']);
  });

  it('shows the progress of init containers', () => {
    const init = { ...spec, initContainers: [container('i'), container('j')] };
    const done = { name: 'i', restartCount: 0, state: { terminated: { exitCode: 0 } } };
    const at = (...initContainerStatuses: object[]) =>
      podStatus({
        spec: init,
        status: {
          phase: 'Pending',
          initContainerStatuses,
          containerStatuses: [running('a', { ready: false, state: { waiting: { reason: 'PodInitializing' } } })],
        },
      })[1];
    expect(at({ name: 'i', state: { running: {} } })).toBe('Init:0/2');
    expect(at(done, { name: 'j', state: { waiting: { reason: 'PodInitializing' } } })).toBe('Init:1/2');
    expect(at(done, { name: 'j', state: { waiting: { reason: 'ImagePullBackOff' } } })).toBe('Init:ImagePullBackOff');
    expect(at(done, { name: 'j', state: { terminated: { exitCode: 2 } } })).toBe('Init:ExitCode:2');
    expect(at(done, { name: 'j', state: { terminated: { exitCode: 1, reason: 'Error' } } })).toBe('Init:Error');
  });

  it('counts sidecars', () => {
    const sidecar = { ...spec, initContainers: [container('s', { restartPolicy: 'Always' })] };
    const initContainerStatuses = [running('s', { restartCount: 4 })];
    expect(
      podStatus({ spec: sidecar, status: { phase: 'Running', initContainerStatuses, containerStatuses: [running('a'), running('b')] } }),
    ).toEqual(['3/3', 'Running', '4']);
  });

  it('terminate', () => {
    const gone = { metadata: { deletionTimestamp: '2026-06-01T12:00:00Z' }, spec };
    expect(podStatus({ ...gone, status: { phase: 'Running' } })[1]).toBe('Terminating');
    expect(podStatus({ ...gone, status: { phase: 'Running', reason: 'NodeLost' } })[1]).toBe('Unknown');
    expect(podStatus({ ...gone, status: { phase: 'Succeeded' } })[1]).toBe('Succeeded');
  });

  it('shows addresses and gates in wide columns', () => {
    const gates = { readinessGates: [{ conditionType: 'a' }, { conditionType: 'b' }] };
    expect(
      show('', 'pods', {
        spec: { ...spec, ...gates },
        status: { podIPs: [{ ip: '10.0.0.1' }], conditions: [{ type: 'a', status: 'True' }] },
      }),
    ).toMatchObject({ IP: '10.0.0.1', Node: 'n1', 'Nominated Node': '<none>', 'Readiness Gates': '1/2' });
    expect(
      printerFor(resource('', 'v1', 'pods', 'Pod', true)).conditions?.({ status: { phase: 'Succeeded' } } as KubeObject),
    ).toMatchObject([{ type: 'Completed', reason: 'Succeeded' }]);
  });
});

describe('printers of other kinds', () => {
  const template = { spec: { containers: [container('a'), container('b')] } };

  it('show the pod counts of workloads', () => {
    expect(
      show('apps', 'deployments', {
        spec: {
          replicas: 3,
          selector: { matchLabels: { b: '2', a: '1' }, matchExpressions: [{ key: 't', operator: 'In', values: ['y', 'x'] }] },
          template,
        },
        status: { readyReplicas: 1, updatedReplicas: 2, availableReplicas: 1 },
      }),
    ).toEqual({
      Name: 'x',
      Ready: '1/3',
      'Up-to-date': 2,
      Available: 1,
      Age: '60m',
      Containers: 'a,b',
      Images: 'a:1,b:1',
      Selector: 'a=1,b=2,t in (x,y)',
    });
    expect(show('apps', 'replicasets', { spec: { replicas: 2 }, status: {} })).toMatchObject({
      Desired: 2,
      Current: 0,
      Ready: 0,
      Selector: '<none>',
    });
    expect(show('batch', 'jobs', { spec: { parallelism: 3 }, status: { succeeded: 1, startTime: '2026-06-01T11:58:00Z' } })).toMatchObject({
      Status: 'Running',
      Completions: '1/1 of 3',
      Duration: '2m',
    });
    expect(
      show('batch', 'jobs', {
        spec: { completions: 2 },
        status: {
          succeeded: 2,
          startTime: '2026-06-01T11:00:00Z',
          completionTime: '2026-06-01T11:00:30Z',
          conditions: [{ type: 'Complete', status: 'True' }],
        },
      }),
    ).toMatchObject({ Status: 'Complete', Completions: '2/2', Duration: '30s' });
    expect(show('batch', 'cronjobs', { spec: { schedule: '* * * * *', suspend: false } })).toMatchObject({
      Timezone: '<none>',
      Suspend: 'False',
      Active: 0,
      'Last Schedule': '<none>',
    });
  });

  it('show how services are exposed', () => {
    const ports = [
      { port: 80, nodePort: 30080, protocol: 'TCP' },
      { port: 53, protocol: 'UDP' },
    ];
    expect(show('', 'services', { spec: { type: 'NodePort', clusterIPs: ['10.96.0.5'], ports, selector: { app: 'a' } } })).toMatchObject({
      Type: 'NodePort',
      'Cluster-IP': '10.96.0.5',
      'External-IP': '<none>',
      'Port(s)': '80:30080/TCP,53/UDP',
      Selector: 'app=a',
    });
    const external = (object: object) => show('', 'services', object)['External-IP'];
    expect(external({ spec: { type: 'LoadBalancer' } })).toBe('<pending>');
    expect(
      external({
        spec: { type: 'LoadBalancer', externalIPs: ['1.1.1.1'] },
        status: { loadBalancer: { ingress: [{ ip: '2.2.2.2' }, { hostname: 'lb.example.com' }] } },
      }),
    ).toBe('2.2.2.2,lb.example.com,1.1.1.1');
    expect(external({ spec: { type: 'ExternalName', externalName: 'db.example.com' } })).toBe('db.example.com');
    expect(
      show('', 'endpoints', { subsets: [{ addresses: ['1', '2', '3', '4'].map((n) => ({ ip: `10.0.0.${n}` })), ports: [{ port: 80 }] }] })[
        'Endpoints'
      ],
    ).toBe('10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 1 more...');
    expect(show('', 'endpoints', {})['Endpoints']).toBe('<none>');
    expect(
      show('discovery.k8s.io', 'endpointslices', {
        addressType: 'IPv4',
        ports: [{ port: 80 }, { name: 'any' }, {}],
        endpoints: [{ addresses: ['10.0.0.1'] }],
      }),
    ).toMatchObject({ Ports: '80,any,*', Endpoints: '10.0.0.1' });
    expect(
      show('networking.k8s.io', 'ingresses', { spec: { rules: [{ host: 'a' }, { host: 'b' }, { host: 'c' }, { host: 'd' }], tls: [{}] } }),
    ).toMatchObject({ Class: '<none>', Hosts: 'a,b,c + 1 more...', Ports: '80, 443' });
    const annotations = { 'ingressclass.kubernetes.io/is-default-class': 'true' };
    expect(show('networking.k8s.io', 'ingressclasses', { metadata: { name: 'front', annotations } })['Name']).toBe('front (default)');
    expect(show('networking.k8s.io', 'ingressclasses', { metadata: { name: 'front' } })['Name']).toBe('front');
  });

  it('show nodes', () => {
    expect(
      show('', 'nodes', {
        metadata: { labels: { 'node-role.kubernetes.io/worker': '', 'node-role.kubernetes.io/control-plane': '' } },
        spec: { unschedulable: true },
        status: {
          conditions: [{ type: 'Ready', status: 'True' }],
          addresses: [{ type: 'InternalIP', address: '10.0.0.9' }],
          nodeInfo: {
            kubeletVersion: 'v1.36.0',
            kernelVersion: '6.1',
            architecture: 'arm64',
            osImage: 'Linux',
            containerRuntimeVersion: 'containerd://1.6',
          },
        },
      }),
    ).toMatchObject({
      Status: 'Ready,SchedulingDisabled',
      Roles: 'control-plane,worker',
      Version: 'v1.36.0',
      'Internal-IP': '10.0.0.9',
      'External-IP': '<none>',
      'Kernel-Version': '6.1 (arm64)',
      'Container-Runtime': 'containerd://1.6',
    });
    expect(show('', 'nodes', { status: { conditions: [{ type: 'Ready', status: 'Unknown' }] } })).toMatchObject({
      Status: 'NotReady',
      Roles: '<none>',
      'OS-Image': '<unknown>',
      'Kernel-Version': '<unknown>',
    });
  });

  it('show events of both groups', () => {
    expect(
      show('', 'events', {
        type: 'Normal',
        reason: 'Pulled',
        message: ' done\n',
        involvedObject: { kind: 'Pod', name: 'p', fieldPath: 'spec' },
        source: { component: 'kubelet', host: 'n' },
        firstTimestamp: '2026-06-01T11:00:00Z',
        lastTimestamp: '2026-06-01T11:59:00Z',
        count: 7,
      }),
    ).toEqual({
      'Last Seen': '60s',
      Type: 'Normal',
      Reason: 'Pulled',
      Object: 'pod/p',
      Subobject: 'spec',
      Source: 'kubelet, n',
      Message: 'done',
      'First Seen': '60m',
      Count: 7,
      Name: 'x',
    });
    expect(
      show('events.k8s.io', 'events', {
        note: 'hi',
        regarding: { kind: 'Node' },
        reportingController: 'c',
        eventTime: '2026-06-01T11:58:00.000000Z',
        series: { count: 3, lastObservedTime: '2026-06-01T11:59:50.000000Z' },
      }),
    ).toMatchObject({ 'Last Seen': '10s', Object: 'node', Source: 'c', Message: 'hi', 'First Seen': '2m', Count: 3 });
  });

  it('show volumes and claims', () => {
    expect(
      show('', 'persistentvolumes', {
        spec: {
          capacity: { storage: '1Gi' },
          accessModes: ['ReadWriteMany', 'ReadWriteOnce'],
          persistentVolumeReclaimPolicy: 'Retain',
          claimRef: { namespace: 'a', name: 'b' },
          volumeMode: 'Block',
        },
        status: { phase: 'Bound' },
      }),
    ).toMatchObject({
      Capacity: '1Gi',
      'Access Modes': 'RWO,RWX',
      Status: 'Bound',
      Claim: 'a/b',
      VolumeMode: 'Block',
      VolumeAttributesClass: '<unset>',
    });
    expect(
      show('', 'persistentvolumeclaims', { metadata: { deletionTimestamp: 'now' }, spec: {}, status: { capacity: { storage: '1Gi' } } }),
    ).toMatchObject({ Status: 'Terminating', Capacity: '', 'Access Modes': '' });
    expect(
      show('storage.k8s.io', 'storageclasses', {
        metadata: { annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } },
        provisioner: 'p',
      }),
    ).toMatchObject({ Name: 'x (default)', ReclaimPolicy: 'Delete', VolumeBindingMode: 'Immediate', AllowVolumeExpansion: false });
  });

  it('show the subjects of bindings', () => {
    const subjects = [
      { kind: 'User', name: 'u' },
      { kind: 'Group', name: 'g' },
      { kind: 'ServiceAccount', name: 's', namespace: 'n' },
      { kind: 'User', name: 'v' },
    ];
    expect(
      show('rbac.authorization.k8s.io', 'clusterrolebindings', { roleRef: { kind: 'ClusterRole', name: 'r' }, subjects }),
    ).toMatchObject({ Role: 'ClusterRole/r', Users: 'u, v', Groups: 'g', ServiceAccounts: 'n/s' });
    expect(show('rbac.authorization.k8s.io', 'roles', {})).toEqual({ Name: 'x', 'Created At': '2026-06-01T11:00:00Z' });
    expect(
      show('certificates.k8s.io', 'certificatesigningrequests', {
        spec: { signerName: 's', username: 'u', expirationSeconds: 3600 },
        status: { conditions: [{ type: 'Approved' }], certificate: 'x' },
      }),
    ).toMatchObject({ Condition: 'Approved,Issued', RequestedDuration: '60m' });
    expect(
      show('autoscaling', 'horizontalpodautoscalers', {
        spec: {
          scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'd' },
          maxReplicas: 5,
          metrics: [{ type: 'Resource', resource: { name: 'cpu', target: { averageUtilization: 80 } } }],
        },
        status: { currentReplicas: 2 },
      }),
    ).toMatchObject({ Reference: 'Deployment/d', Targets: 'cpu: <unknown>/80%', MinPods: '<unset>', MaxPods: 5, Replicas: 2 });
  });

  it('show objects without spec and status', () => {
    for (const { group, resource: name } of kinds) expect(() => show(group, name, {})).not.toThrow();
  });
});
