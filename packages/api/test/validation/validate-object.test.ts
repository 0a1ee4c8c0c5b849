import { describe, expect, it } from 'vitest';
import { applyDefaults } from '@oarlock/api/defaulting/apply-defaults';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import { applyMergePatch } from '@oarlock/api/patches/merge-patch';
import { gvkOf } from '@oarlock/api/kinds';
import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import { validateObject, type ValidationOptions } from '@oarlock/api/validation/validate-object';

type Any = Record<string, unknown>;
const full = (object: Any): KubeObject => deepFreeze(applyDefaults(gvkOf(object), object as KubeObject));
const lines = (object: Any, old?: Any, options?: ValidationOptions) =>
  validateObject(gvkOf(object), full(object), old && full(old), options).map(({ field, message }) => `${field}: ${message}`);
const change = (object: Any, patch: unknown) => applyMergePatch(object, patch) as Any;
const stored = { resourceVersion: '7', uid: 'u', creationTimestamp: '2026-01-01T00:00:00Z' };

const meta = (name: string, namespace: string | undefined = 'default') => ({ name, ...(namespace !== '' && { namespace }) });
const container = { name: 'c', image: 'nginx' };
const pod = { apiVersion: 'v1', kind: 'Pod', metadata: meta('p'), spec: { containers: [container] } };
const withContainer = (extra: Any, spec: Any = {}) => ({ ...pod, spec: { ...spec, containers: [{ ...container, ...extra }] } });
const withSpec = (spec: Any) => ({ ...pod, spec: { ...pod.spec, ...spec } });
const deployment = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: meta('d'),
  spec: { selector: { matchLabels: { a: 'b' } }, template: { metadata: { labels: { a: 'b' } }, spec: { containers: [container] } } },
};
const service = { apiVersion: 'v1', kind: 'Service', metadata: meta('s'), spec: { ports: [{ port: 80 }] } };
const label =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

describe('valid objects pass', () => {
  it.each([
    ['pod', pod],
    ['deployment', deployment],
    ['replica set', { ...deployment, kind: 'ReplicaSet' }],
    ['daemon set', { ...deployment, kind: 'DaemonSet' }],
    ['stateful set', { ...deployment, kind: 'StatefulSet' }],
    [
      'stateful set whose containers mount its claims',
      change(deployment, {
        kind: 'StatefulSet',
        spec: {
          template: { spec: { containers: [{ ...container, volumeMounts: [{ name: 'data', mountPath: '/data' }] }] } },
          volumeClaimTemplates: [
            { metadata: { name: 'data' }, spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } } },
          ],
        },
      }),
    ],
    ['service', service],
    ['headless service', change(service, { spec: { clusterIP: 'None', clusterIPs: ['None'], ports: null } })],
    ['config map', { apiVersion: 'v1', kind: 'ConfigMap', metadata: meta('c'), data: { a: 'b' } }],
    ['secret', { apiVersion: 'v1', kind: 'Secret', metadata: meta('c'), data: { a: 'eA==' } }],
    ['namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: meta('n', ''), spec: { finalizers: ['kubernetes'] } }],
    [
      'node',
      {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: meta('n.x', ''),
        spec: { taints: [{ key: 'a', effect: 'NoSchedule' }] },
        status: { capacity: { cpu: '1', 'example.com/gpu': '2' } },
      },
    ],
    ['service account', { apiVersion: 'v1', kind: 'ServiceAccount', metadata: meta('c') }],
    ['lease', { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: meta('c'), spec: { leaseDurationSeconds: 1 } }],
    ['role', { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', metadata: meta('system:A b'), rules: [] }],
    ['event', { apiVersion: 'v1', kind: 'Event', metadata: meta('c.1'), involvedObject: { namespace: 'default' } }],
    ['storage class', { apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata: meta('c', ''), provisioner: 'x' }],
    [
      'endpoint slice',
      {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: meta('c'),
        addressType: 'IPv4',
        endpoints: [{ addresses: ['10.0.0.1'] }],
        ports: [{ port: 1 }],
      },
    ],
    [
      'claim',
      {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: meta('c'),
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
      },
    ],
    [
      'volume',
      {
        apiVersion: 'v1',
        kind: 'PersistentVolume',
        metadata: meta('c', ''),
        spec: { accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' }, hostPath: { path: '/x' } },
      },
    ],
    ['binding', { apiVersion: 'v1', kind: 'Binding', metadata: { name: 'p' }, target: { kind: 'Node', name: 'n' } }],
    ['custom resource', { apiVersion: 'example.com/v1', kind: 'Thing', metadata: meta('x'), spec: { any: 1 } }],
    [
      'pod with everything',
      withContainer(
        {
          ports: [{ name: 'http', containerPort: 80 }],
          env: [
            { name: 'A', value: 'x' },
            { name: 'B=', valueFrom: undefined },
          ].slice(0, 1),
          envFrom: [{ secretRef: { name: 's' } }],
          resources: { limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '500m' } },
          volumeMounts: [
            { name: 'v', mountPath: '/v', subPath: 'x/y' },
            { name: 't', mountPath: '/t' },
          ],
          livenessProbe: { httpGet: { port: 'http' } },
          lifecycle: { preStop: { sleep: { seconds: 5 } } },
          securityContext: { runAsUser: 0, seccompProfile: { type: 'RuntimeDefault' } },
        },
        {
          serviceAccountName: 'default',
          volumes: [
            { name: 'v', emptyDir: {} },
            {
              name: 't',
              projected: {
                sources: [{ serviceAccountToken: { path: 'token' } }, { configMap: { name: 'c', items: [{ key: 'k', path: 'ca.crt' }] } }],
              },
            },
          ],
          tolerations: [{ operator: 'Exists' }, { key: 'a', operator: 'Equal', value: 'b', effect: 'NoExecute', tolerationSeconds: 300 }],
          nodeSelector: { a: 'b' },
          initContainers: [
            { name: 'i', image: 'x' },
            { name: 's', image: 'x', restartPolicy: 'Always', readinessProbe: { tcpSocket: { port: 1 } } },
          ],
          affinity: {
            nodeAffinity: {
              requiredDuringSchedulingIgnoredDuringExecution: {
                nodeSelectorTerms: [
                  {
                    matchExpressions: [{ key: 'a', operator: 'In', values: ['b'] }],
                    matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n'] }],
                  },
                ],
              },
            },
            podAntiAffinity: {
              preferredDuringSchedulingIgnoredDuringExecution: [
                { weight: 1, podAffinityTerm: { topologyKey: 'h', labelSelector: { matchLabels: { a: 'b' } } } },
              ],
            },
          },
          topologySpreadConstraints: [{ maxSkew: 1, topologyKey: 'z', whenUnsatisfiable: 'DoNotSchedule', labelSelector: {} }],
          dnsConfig: { nameservers: ['1.1.1.1'], searches: ['a.b.', '_srv.x'] },
          hostAliases: [{ ip: '1.1.1.1', hostnames: ['a.b'] }],
        },
      ),
    ],
  ])('%s', (_, object) => expect(lines(object)).toEqual([]));
});

describe('metadata', () => {
  it.each([
    [{ name: '' }, 'metadata.name: Required value: name or generateName is required'],
    [{ name: 'A' }, 'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of'],
    [{ namespace: null }, 'metadata.namespace: Required value'],
    [{ labels: { 'a b': 'c' } }, 'metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters'],
    [{ labels: { a: '-' } }, 'metadata.labels: Invalid value: "-": a valid label must be an empty string or consist of'],
    [{ annotations: { '/': '' } }, 'metadata.annotations: Invalid value: "/": prefix part must be non-empty'],
    [{ annotations: { a: 'x'.repeat(262144) } }, 'metadata.annotations: Too long: may not be more than 262144 bytes'],
    [
      { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'a', uid: '' }] },
      'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
    ],
    [
      { ownerReferences: [1, 2].map((i) => ({ apiVersion: 'v1', kind: 'Pod', name: `a${i}`, uid: 'u', controller: true })) },
      'Only one reference can have Controller set to true. Found "true" in references for Pod/a1 and Pod/a2',
    ],
    [
      { finalizers: ['x'] },
      'metadata.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified',
    ],
    [{ generateName: 'A-' }, 'metadata.generateName: Invalid value: "A-": a lowercase RFC 1123 subdomain'],
  ])('%j', (patch, expected) => expect(lines(change(pod, { metadata: patch })).join('\n')).toContain(expected));
  it('has rules by kind', () => {
    expect(lines({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'a.b' } })).toEqual([
      'metadata.name: Invalid value: "a.b": must not contain dots',
    ]);
    expect(lines({ apiVersion: 'v1', kind: 'Node', metadata: meta('a') })).toEqual([
      'metadata.namespace: Forbidden: not allowed on this type',
    ]);
    expect(lines(change(service, { metadata: { ...service.metadata, name: '1a' } }))).toEqual([]);
    expect(lines(change(service, { metadata: { name: 'a.b' } }))[0]).toBe('metadata.name: Invalid value: "a.b": must not contain dots');
    expect(lines({ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: 'a/b' } })).toEqual([
      'metadata.name: Invalid value: "a/b": may not contain \'/\'',
    ]);
  });
  it('has immutable fields', () => {
    const old = change(pod, { metadata: { ...stored, finalizers: ['a.b/c'], deletionTimestamp: '2026-01-02T00:00:00Z' } });
    expect(
      lines(
        change(old, { metadata: { name: 'q', uid: 'v', resourceVersion: null, finalizers: ['a.b/c', 'a.b/d'], deletionTimestamp: null } }),
        old,
      ),
    ).toEqual([
      'metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a.b/d"}',
      'metadata.resourceVersion: Invalid value: "": must be specified for an update',
      'metadata.name: Invalid value: "q": field is immutable',
      'metadata.uid: Invalid value: "v": field is immutable',
      'metadata.deletionTimestamp: Invalid value: null: field is immutable',
    ]);
  });
});

describe('pods', () => {
  it.each([
    [withSpec({ containers: [] }), 'spec.containers: Required value'],
    [withContainer({ name: '' }), 'spec.containers[0].name: Required value'],
    [withContainer({ name: 'A' }), `spec.containers[0].name: Invalid value: "A": ${label}`],
    [withContainer({ image: '' }), 'spec.containers[0].image: Required value'],
    [withContainer({ image: ' x' }), 'spec.containers[0].image: Invalid value: " x": must not have leading or trailing whitespace'],
    [
      withContainer({ imagePullPolicy: 'Maybe' }),
      'spec.containers[0].imagePullPolicy: Unsupported value: "Maybe": supported values: "Always", "IfNotPresent", "Never"',
    ],
    [withContainer({ ports: [{ containerPort: 0 }] }), 'spec.containers[0].ports[0].containerPort: Required value'],
    [
      withContainer({ ports: [{ containerPort: 70000 }] }),
      'spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive',
    ],
    [
      withContainer({ ports: [{ containerPort: 1, name: 'A' }] }),
      'spec.containers[0].ports[0].name: Invalid value: "A": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
    ],
    [
      withContainer({
        ports: [
          { containerPort: 1, hostPort: 2 },
          { containerPort: 3, hostPort: 2 },
        ],
      }),
      'spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//2"',
    ],
    [
      withContainer({ ports: [{ containerPort: 1, protocol: 'X' }] }),
      'spec.containers[0].ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
    ],
    [withContainer({ env: [{ name: '' }] }), 'spec.containers[0].env[0].name: Required value'],
    [
      withContainer({ env: [{ name: 'a=b' }] }),
      "a valid environment variable name must consist only of printable ASCII characters other than '='",
    ],
    [
      withContainer({ env: [{ name: 'a', value: 'x', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }] }),
      'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
    ],
    [
      withContainer({ env: [{ name: 'a', valueFrom: { fieldRef: { fieldPath: 'spec.foo' } } }] }),
      'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.foo": error converting fieldPath: field label not supported: spec.foo',
    ],
    [
      withContainer({ env: [{ name: 'a', valueFrom: { fieldRef: { fieldPath: 'metadata.labels' } } }] }),
      'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels"',
    ],
    [
      withContainer({ env: [{ name: 'a', valueFrom: { secretKeyRef: { name: 's', key: '' } } }] }),
      'spec.containers[0].env[0].valueFrom.secretKeyRef.key: Required value',
    ],
    [withContainer({ volumeMounts: [{ name: 'v', mountPath: '/x' }] }), 'spec.containers[0].volumeMounts[0].name: Not found: "v"'],
    [
      withContainer(
        {
          volumeMounts: [
            { name: 'v', mountPath: '/x' },
            { name: 'v', mountPath: '/x' },
          ],
        },
        { volumes: [{ name: 'v' }] },
      ),
      'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/x": must be unique',
    ],
    [
      withContainer({ volumeMounts: [{ name: 'v', mountPath: '/x', subPath: '../y' }] }, { volumes: [{ name: 'v' }] }),
      'spec.containers[0].volumeMounts.subPath: Invalid value: "../y": must not contain \'..\'',
    ],
    [
      withContainer({ resources: { requests: { cpu: '2' }, limits: { cpu: '1' } } }),
      'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ],
    [
      withContainer({ resources: { limits: { cpu: '-1' } } }),
      'spec.containers[0].resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ],
    [
      withContainer({ resources: { limits: { foo: '1' } } }),
      'spec.containers[0].resources.limits[foo]: Invalid value: "foo": must be a standard resource type or fully qualified',
    ],
    [
      withContainer({ resources: { requests: { 'example.com/gpu': '1' } } }),
      'spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources',
    ],
    [
      withContainer({ resources: { limits: { 'example.com/gpu': '500m' } } }),
      'spec.containers[0].resources.limits[example.com/gpu]: Invalid value: "500m": must be an integer',
    ],
    [
      withContainer({ resources: { limits: { 'hugepages-2Mi': '3Mi', cpu: '1' } } }),
      '3Mi is not positive integer multiple of hugepages-2Mi',
    ],
    [withContainer({ livenessProbe: {} }), 'spec.containers[0].livenessProbe: Required value: must specify a handler type'],
    [
      withContainer({ livenessProbe: { httpGet: { port: 0 }, exec: { command: ['x'] } } }),
      'spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type',
    ],
    [
      withContainer({ livenessProbe: { exec: { command: ['x'] }, successThreshold: 2 } }),
      'spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1',
    ],
    [
      withContainer({ readinessProbe: { tcpSocket: { port: 'A' } } }),
      'spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: "A": must contain only alpha-numeric',
    ],
    [
      withContainer({ lifecycle: { preStop: { sleep: { seconds: 31 } } } }),
      'spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)',
    ],
    [
      withContainer({ securityContext: { runAsUser: -1 } }),
      'spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 4294967295, inclusive',
    ],
    [
      withContainer({ securityContext: { privileged: true, allowPrivilegeEscalation: false } }),
      'cannot set `allowPrivilegeEscalation` to false and `privileged` to true',
    ],
    [
      withContainer({ securityContext: { seccompProfile: { type: 'Localhost' } } }),
      'spec.containers[0].securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost',
    ],
    [withSpec({ volumes: [{ name: 'v' }, { name: 'v' }] }), 'spec.volumes[1].name: Duplicate value: "v"'],
    [
      withSpec({ volumes: [{ name: 'v', emptyDir: {}, hostPath: { path: '/' } }] }),
      'spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type',
    ],
    [
      withSpec({ volumes: [{ name: 'v', configMap: { name: 'c', items: [{ key: 'k', path: '../x' }] } }] }),
      'spec.volumes[0].configMap.items[0].path: Invalid value: "../x": must not contain \'..\'',
    ],
    [
      withSpec({ volumes: [{ name: 'v', secret: { defaultMode: 512 } }] }),
      'spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive',
    ],
    [
      withSpec({ volumes: [{ name: 'v', projected: { sources: [{ serviceAccountToken: { path: 't', expirationSeconds: 5 } }] } }] }),
      'may not specify a duration less than 10 minutes',
    ],
    [
      withSpec({ restartPolicy: 'Sometimes' }),
      'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
    ],
    [withSpec({ dnsPolicy: 'None' }), 'spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None'],
    [
      withSpec({ tolerations: [{ operator: 'Equal' }] }),
      'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys"',
    ],
    [
      withSpec({ tolerations: [{ key: 'a', operator: 'Exists', tolerationSeconds: 1 }] }),
      'spec.tolerations[0].effect: Invalid value: "": effect must be \'NoExecute\' when `tolerationSeconds` is set',
    ],
    [withSpec({ activeDeadlineSeconds: 0 }), 'spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive'],
    [withSpec({ hostname: 'a.b' }), 'spec.hostname: Invalid value: "a.b": must not contain dots'],
    [
      withSpec({ affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [] } } } }),
      'nodeSelectorTerms: Required value: must have at least one node selector term',
    ],
    [
      withSpec({ affinity: { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: '' }] } } }),
      'topologyKey: Required value: can not be empty',
    ],
    [withSpec({ initContainers: [{ ...container, name: 'c' }] }), 'spec.initContainers[0].name: Duplicate value: "c"'],
    [
      withSpec({ initContainers: [{ name: 'i', image: 'x', livenessProbe: { tcpSocket: { port: 1 } } }] }),
      'spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always',
    ],
    [withSpec({ ephemeralContainers: [{ name: 'e', image: 'x' }] }), 'spec.ephemeralContainers: Forbidden: cannot be set on create'],
    [withSpec({ hostUsers: false, hostNetwork: true }), 'spec.hostNetwork: Forbidden: when `hostUsers` is false'],
    [
      withSpec({
        hostUsers: false,
        volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'c' } }],
        containers: [{ ...container, volumeDevices: [{ name: 'v', devicePath: '/dev/v' }] }],
      }),
      'spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false',
    ],
    [
      withSpec({ schedulingGates: [{ name: 'a' }], nodeName: 'n' }),
      'spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared',
    ],
    [
      withSpec({ topologySpreadConstraints: [{ maxSkew: 0, topologyKey: 'a', whenUnsatisfiable: 'DoNotSchedule' }] }),
      'spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero',
    ],
    [
      withSpec({
        resources: { limits: { cpu: '1' }, requests: { cpu: '1' } },
        containers: [{ ...container, resources: { requests: { cpu: '2' } } }],
      }),
      'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 2',
    ],
    [withSpec({ os: { name: 'windows' }, hostPID: true }), 'spec.hostPID: Forbidden: cannot be set for a windows pod'],
    [
      withSpec({ securityContext: { sysctls: [{ name: 'A' }] } }),
      'spec.securityContext.sysctls[0].name: Invalid value: "A": must have at most 253 characters and match regex',
    ],
  ])('%#: %j', (object, expected) => expect(lines(object).join('\n')).toContain(expected));
  it('report all errors at once', () => {
    const errors = validateObject(gvkOf(pod), full(withContainer({ name: '', image: '' }, { restartPolicy: 'x' })));
    expect(invalidStatus({ group: '', kind: 'Pod', name: 'p' }, errors).message).toBe(
      'Pod "p" is invalid: [spec.containers[0].name: Required value, spec.containers[0].image: Required value, spec.restartPolicy: Unsupported value: "x": supported values: "Always", "OnFailure", "Never"]',
    );
  });
  it('reject hostile sysctls quickly', () => {
    expect(lines(withSpec({ securityContext: { sysctls: [{ name: `${'a'.repeat(250)}!` }] } }))).toHaveLength(1);
  });

  const live = change(pod, { metadata: stored, spec: { tolerations: [{ key: 'a', operator: 'Exists' }] } });
  const update = (patch: unknown, old = live) => lines(change(old, patch), old);
  it('allow updates of images, tolerations, deadlines and gates', () => {
    expect(
      update({
        spec: {
          containers: [{ ...container, image: 'x:2', imagePullPolicy: 'Always' }],
          activeDeadlineSeconds: 5,
          tolerations: [
            { key: 'b', operator: 'Exists' },
            { key: 'a', operator: 'Exists' },
          ],
        },
      }),
    ).toEqual([]);
    const gated = change(live, { spec: { schedulingGates: [{ name: 'g' }] } });
    expect(update({ spec: { schedulingGates: null, nodeSelector: { a: 'b' } } }, gated)).toEqual([]);
    expect(update({ spec: { nodeSelector: { a: 'b' } } })[0]).toContain('spec: Forbidden: pod updates may not change fields other than');
  });
  it('reject updates of other fields', () => {
    expect(update({ spec: { hostname: 'x' } })).toEqual([
      'spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n@@ -64,7 +64,7 @@\n     "SELinuxChangePolicy": null\n   },\n   "ImagePullSecrets": null,\n-  "Hostname": "",\n+  "Hostname": "x",\n   "Subdomain": "",\n   "SetHostnameAsFQDN": null,\n   "Affinity": null,\n',
    ]);
    expect(update({ spec: { containers: [container, { ...container, name: 'd' }] } })).toEqual([
      'spec.containers: Forbidden: pod updates may not add or remove containers',
    ]);
    expect(update({ spec: { tolerations: null } })[0]).toBe(
      'spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds',
    );
    expect(update({ spec: { activeDeadlineSeconds: 9 } }, change(live, { spec: { activeDeadlineSeconds: 5 } }))).toEqual([
      'spec.activeDeadlineSeconds: Invalid value: 9: must be less than or equal to previous value',
    ]);
    expect(update({ spec: { schedulingGates: [{ name: 'g' }] } })[0]).toContain(
      "only deletion is allowed, but found new scheduling gate 'g'",
    );
  });
  it('reject a status that restarts a container that has terminated for good', () => {
    const ended = change(live, {
      spec: { restartPolicy: 'Never' },
      status: { containerStatuses: [{ name: 'c', state: { terminated: { exitCode: 0 } } }] },
    });
    const status = (patch: unknown) => lines(change(ended, { status: patch }), ended, { subresource: 'status' });
    expect(status({ containerStatuses: [{ name: 'c', state: { running: {} } }] })).toEqual([
      'status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state',
    ]);
    expect(status({ podIPs: [{ ip: '10.0.0.1' }, { ip: '10.0.0.2' }] })).toEqual([
      'status.podIPs: Invalid value: ["10.0.0.1","10.0.0.2"]: may specify no more than one IP for each IP family',
    ]);
    expect(status({ podIP: '127.0.0.2', phase: 'Running' })).toEqual([]);
    // unless the exit of another container restarts all (KEP-5532)
    const restartPolicyRules = [{ action: 'RestartAllContainers', exitCodes: { operator: 'In', values: [7] } }];
    const anew = change(ended, {
      spec: { containers: [container, { ...container, name: 'asker', restartPolicy: 'Never', restartPolicyRules }] },
    });
    const waiting = { containerStatuses: [{ name: 'c', state: { waiting: { reason: 'ContainerCreating' } } }] };
    expect(lines(change(anew, { status: waiting }), anew, { subresource: 'status' })).toEqual([]);
  });
  it('resize allows changes of cpu and memory only', () => {
    const running = change(live, { spec: { containers: [{ ...container, resources: { requests: { cpu: '1', memory: '1Gi' } } }] } });
    const resize = (patch: Any) =>
      lines(
        change(running, { spec: { containers: [{ ...container, resources: { requests: { cpu: '1', memory: '1Gi' } }, ...patch }] } }),
        running,
        { subresource: 'resize' },
      );
    expect(resize({ resources: { requests: { cpu: '2', memory: '2Gi' } } })).toEqual([]);
    expect(resize({ image: 'other' })).toEqual(['spec: Forbidden: only cpu and memory resources are mutable']);
    const same = { cpu: '1', memory: '1Gi' };
    expect(resize({ resources: { requests: same, limits: { cpu: '1' } } })).toEqual([]);
    expect(resize({ resources: { requests: same, limits: same } })).toEqual([
      'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing',
    ]);
    expect(resize({ resources: { requests: { cpu: '2' } } })).toContain(
      'spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed',
    );
  });
  it('resize allows changes of pod-level cpu and memory if the pod had them', () => {
    const whole = (cpu: string, more: Any = {}) => ({ requests: { cpu, memory: '1Gi' }, limits: { cpu: '4', memory: '4Gi' }, ...more });
    const resize = (resources: unknown, before: unknown = whole('1')) =>
      lines(change(live, { spec: { resources } }), change(live, { spec: { resources: before } }), { subresource: 'resize' });
    expect(resize(whole('2'))).toEqual([]);
    expect(resize(whole('2', { limits: undefined }))).toContain('spec.resources.limits: Forbidden: resource limits cannot be removed');
    expect(lines(change(live, { spec: { resources: whole('2') } }), live, { subresource: 'resize' })).toEqual([
      'spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing',
      'spec: Forbidden: only cpu and memory resources are mutable',
    ]);
  });
  it('allow adding ephemeral containers only', () => {
    const with1 = change(live, { spec: { ephemeralContainers: [{ name: 'e', image: 'x' }] } });
    expect(lines(with1, live, { subresource: 'ephemeralcontainers' })).toEqual([]);
    expect(lines(live, with1, { subresource: 'ephemeralcontainers' })).toEqual([
      'spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be removed\n',
    ]);
    expect(
      lines(change(live, { spec: { ephemeralContainers: [{ name: 'c', image: 'x', ports: [{ containerPort: 1 }] }] } }), live, {
        subresource: 'ephemeralcontainers',
      }),
    ).toEqual([
      'spec.ephemeralContainers[0].name: Duplicate value: "c"',
      'spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container',
    ]);
  });
});

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
