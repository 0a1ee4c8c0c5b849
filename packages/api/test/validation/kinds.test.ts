import { describe, expect, it } from 'vitest';

import { lines, change, stored, meta, deployment, service } from '../fixtures/validation.ts';

describe('workloads', () => {
  it.each([
    [{ spec: { selector: null } }, 'spec.selector: Required value'],
    [{ spec: { selector: { matchLabels: null } } }, 'spec.selector: Invalid value: {}: empty selector is invalid for deployment'],
    [
      { spec: { selector: { matchLabels: { x: 'y' } } } },
      'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`',
    ],
    [{ spec: { replicas: -1 } }, 'spec.replicas: Invalid value: -1: must be greater than or equal to 0'],
    [
      { spec: { template: { spec: { restartPolicy: 'Never' } } } },
      'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
    ],
    [{ spec: { template: { spec: { containers: [] } } } }, 'spec.template.spec.containers: Required value'],
    [{ spec: { strategy: { type: 'x' } } }, 'spec.strategy.type: Unsupported value: "x": supported values: "Recreate", "RollingUpdate"'],
    [
      { spec: { strategy: { type: 'Recreate', rollingUpdate: { maxSurge: 1 } } } },
      "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
    ],
    [
      { spec: { strategy: { rollingUpdate: { maxSurge: 0, maxUnavailable: '0%' } } } },
      'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0',
    ],
    [{ spec: { strategy: { rollingUpdate: { maxUnavailable: '101%' } } } }, 'must not be greater than 100%'],
    [{ spec: { minReadySeconds: 600 } }, 'spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds'],
  ])('%j', (patch, expected) => expect(lines(change(deployment, patch)).join('\n')).toContain(expected));
  it('have an immutable selector', () => {
    const old = change(deployment, { metadata: stored });
    for (const kind of ['Deployment', 'ReplicaSet', 'DaemonSet']) {
      const next = change(old, { kind, spec: { selector: { matchLabels: { a: 'c' } }, template: { metadata: { labels: { a: 'c' } } } } });
      expect(lines(next, { ...old, kind })).toEqual(['spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable']);
    }
    expect(lines(change(old, { kind: 'StatefulSet', spec: { serviceName: 'x' } }), { ...old, kind: 'StatefulSet' })[0]).toContain(
      "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template'",
    );
    expect(lines(change(old, { status: { replicas: 1, readyReplicas: 2 } }), old, { subresource: 'status' })).toEqual([
      'status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas',
    ]);
  });
});

describe('services and endpoints', () => {
  it.each([
    [{ spec: { ports: null } }, 'spec.ports: Required value'],
    [{ spec: { ports: [{ port: 1 }, { port: 2 }] } }, 'spec.ports[0].name: Required value'],
    [{ spec: { ports: [{ port: 0 }] } }, 'spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive'],
    [
      {
        spec: {
          ports: [
            { name: 'a', port: 1 },
            { name: 'a', port: 1 },
          ],
        },
      },
      'spec.ports[1].name: Duplicate value: "a"',
    ],
    [{ spec: { ports: [{ port: 1, nodePort: 30000 }] } }, "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    [
      { spec: { type: 'Odd' } },
      'spec.type: Unsupported value: "Odd": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
    ],
    [{ spec: { type: 'ExternalName' } }, 'spec.externalName: Required value'],
    [
      { spec: { clusterIP: 'x', clusterIPs: ['x'] } },
      'spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ],
    [{ spec: { clusterIP: '10.0.0.1', clusterIPs: ['10.0.0.1', '10.0.0.2'] } }, 'may specify no more than one IP for each IP family'],
    [
      { spec: { externalTrafficPolicy: 'Local' } },
      'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services',
    ],
    [
      { spec: { externalIPs: ['127.0.0.1'] } },
      'spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
    ],
    [
      { spec: { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 0 } } } },
      'must be greater than 0 and less than 86400',
    ],
    [{ spec: { loadBalancerClass: 'a.b/c' } }, "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"],
  ])('%j', (patch, expected) => expect(lines(change(service, patch)).join('\n')).toContain(expected));
  it('have an immutable cluster IP', () => {
    const old = change(service, { metadata: stored, spec: { clusterIP: '10.0.0.1', clusterIPs: ['10.0.0.1'] } });
    expect(lines(change(old, { spec: { clusterIP: '10.0.0.2', clusterIPs: ['10.0.0.2'] } }), old)).toEqual([
      'spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set',
    ]);
    expect(lines(change(old, { spec: { clusterIP: null, clusterIPs: null } }), old)).toEqual([
      'spec.clusterIPs[0]: Invalid value: []: primary clusterIP can not be unset',
    ]);
    expect(lines(change(old, { spec: { selector: { a: 'b' } } }), old)).toEqual([]);
  });
  it('accept loopback addresses only with allowLoopback', () => {
    const slice = {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: meta('c'),
      addressType: 'IPv4',
      endpoints: [{ addresses: ['127.1.2.3'] }],
    };
    const endpoints = {
      apiVersion: 'v1',
      kind: 'Endpoints',
      metadata: meta('c'),
      subsets: [{ addresses: [{ ip: '127.1.2.3' }], ports: [{ port: 1 }] }],
    };
    for (const object of [slice, endpoints]) {
      expect(lines(object).join()).toContain('may not be in the loopback range');
      expect(lines(object, undefined, { allowLoopback: true })).toEqual([]);
    }
    expect(lines(change(slice, { endpoints: [{ addresses: ['::1', '10.0.0.300'] }, { addresses: [] }] }))).toEqual([
      'endpoints[0].addresses[0]: Invalid value: "::1": must be a valid IPv4 address',
      'endpoints[0].addresses[1]: Invalid value: "10.0.0.300": must be a valid IPv4 address',
      'endpoints[1].addresses: Required value: must contain at least 1 address',
    ]);
    expect(lines(change(slice, { addressType: 'X', endpoints: null, ports: [{ name: 'a' }, { name: 'a' }] }))).toEqual([
      'addressType: Unsupported value: "X": supported values: "FQDN", "IPv4", "IPv6"',
      'ports[1].name: Duplicate value: "a"',
    ]);
    for (const [address, words] of [
      ['0.0.0.0', 'unspecified'],
      ['169.254.1.1', 'link-local range'],
      ['224.0.0.1', 'link-local multicast'],
    ])
      expect(lines(change(slice, { endpoints: [{ addresses: [address] }] }))[0]).toContain(words);
  });
});

describe('small kinds', () => {
  const map = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...meta('c'), ...stored }, immutable: true, data: { a: 'b' } };
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { ...meta('c'), ...stored }, type: 'Opaque', data: { a: 'eA==' } };
  it('enforce immutability', () => {
    expect(lines(change(map, { immutable: null, data: { a: 'c' } }), map)).toEqual([
      'immutable: Forbidden: field is immutable when `immutable` is set',
      'data: Forbidden: field is immutable when `immutable` is set',
    ]);
    expect(lines(change(secret, { type: 'x' }), secret)).toEqual(['type: Invalid value: "x": field is immutable']);
  });
  it('check keys and sizes', () => {
    expect(lines(change(map, { data: { 'a/b': 'x' }, binaryData: { a: 'eA==' } }))).toEqual([
      "data[a/b]: Invalid value: \"a/b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
      'data[a]: Invalid value: "a": duplicate of key present in binaryData',
    ]);
    expect(lines(change(map, { data: { a: 'x'.repeat(1024 * 1024 + 1) } }))).toEqual([': Too long: may not be more than 1048576 bytes']);
    expect(lines(change(secret, { data: { a: Buffer.alloc(1024 * 1024 + 1).toString('base64') } }))).toEqual([
      'data: Too long: may not be more than 1048576 bytes',
    ]);
    expect(lines(change(secret, { type: 'kubernetes.io/tls' }))).toEqual([
      'data[tls.crt]: Required value',
      'data[tls.key]: Required value',
    ]);
    const broken = lines(
      change(secret, { type: 'kubernetes.io/dockerconfigjson', data: { '.dockerconfigjson': Buffer.from('hunter2').toString('base64') } }),
    );
    expect(broken.join()).toContain('<secret contents redacted>');
    expect(broken.join()).not.toContain('hunter2');
  });
  it('check nodes, namespaces, leases and events', () => {
    const node = {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n', ...stored },
      spec: { podCIDRs: ['10.0.0.0/24'], podCIDR: '10.0.0.0/24' },
    };
    expect(lines(change(node, { spec: { podCIDRs: ['10.0.1.0/24'], podCIDR: '10.0.1.0/24' } }), node)).toEqual([
      'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
    ]);
    expect(
      lines({
        ...node,
        spec: {
          taints: [
            { key: 'a', effect: 'x' },
            { key: 'a', effect: 'x' },
          ],
        },
      }).join('\n'),
    ).toContain('metadata.taints[1]: Duplicate value: {"key":"a","effect":"x"}: taints must be unique by key and effect pair');
    const ns = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'n', ...stored }, status: { phase: 'Terminating' } };
    expect(lines(ns, ns, { subresource: 'status' })).toEqual([
      'status.Phase: Invalid value: "Terminating": may only be \'Active\' if `deletionTimestamp` is empty',
    ]);
    expect(lines({ ...ns, spec: { finalizers: ['x'] } }, ns, { subresource: 'finalize' })).toHaveLength(1);
    expect(
      lines({
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: meta('l'),
        spec: { leaseDurationSeconds: 0, leaseTransitions: -1 },
      }),
    ).toEqual([
      'spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0',
      'spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0',
    ]);
    expect(lines({ apiVersion: 'v1', kind: 'Event', metadata: meta('e'), involvedObject: { namespace: 'other' } })).toEqual([
      'involvedObject.namespace: Invalid value: "other": does not match event.namespace',
    ]);
    expect(
      lines({ apiVersion: 'events.k8s.io/v1', kind: 'Event', metadata: meta('e'), regarding: { namespace: 'default' }, type: 'Normal' }),
    ).toEqual(['eventTime: Required value']);
    expect(lines({ apiVersion: 'v1', kind: 'Binding', metadata: { name: 'p' }, target: { kind: 'Pod' } })).toEqual([
      'target.kind: Unsupported value: "Pod": supported values: "<empty>", "Node"',
      'target.name: Required value',
    ]);
  });
  it('report missing required fields', () => {
    expect(lines({ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRoleBinding', metadata: { name: 'x' } }).join('\n')).toContain(
      'roleRef.name: Required value',
    );
    expect(lines({ apiVersion: 'node.k8s.io/v1', kind: 'RuntimeClass', metadata: { name: 'x' } })).toEqual([
      expect.stringMatching(/^handler: Invalid value: "": a lowercase RFC 1123 label/),
    ]);
    expect(lines({ apiVersion: 'autoscaling/v2', kind: 'HorizontalPodAutoscaler', metadata: meta('x'), spec: { maxReplicas: 1 } })).toEqual(
      [
        'spec.scaleTargetRef.kind: Required value',
        'spec.scaleTargetRef.name: Required value',
        'spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group',
      ],
    );
    expect(
      lines({
        apiVersion: 'batch/v1',
        kind: 'Job',
        metadata: meta('x'),
        spec: { template: { spec: { containers: [], restartPolicy: 'Never' } } },
      }),
    ).toEqual(['spec.template.spec.containers: Required value', 'spec.selector: Required value']);
  });
});
