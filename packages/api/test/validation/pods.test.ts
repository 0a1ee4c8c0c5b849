import { describe, expect, it } from 'vitest';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import { gvkOf } from '@oarlock/api/kinds';
import { validateObject } from '@oarlock/api/validation/validate-object';

import { full, lines, change, stored, container, pod, withContainer, withSpec, label, type TestObject } from '../fixtures/validation.ts';

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
    const resize = (patch: TestObject) =>
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
  it('resize allows changes of cpu and memory of init containers', () => {
    const prepared = (patch: TestObject) =>
      change(live, { spec: { initContainers: [{ ...container, name: 'i', resources: { requests: { cpu: '1' } }, ...patch }] } });
    const resize = (patch: TestObject) => lines(prepared(patch), prepared({}), { subresource: 'resize' });
    expect(resize({ resources: { requests: { cpu: '2' } } })).toEqual([]);
    expect(resize({ image: 'other' })).toEqual(['spec: Forbidden: only cpu and memory resources are mutable']);
    expect(resize({ resources: {} })).toContain(
      'spec.initContainers[0].resources.requests: Forbidden: resource requests cannot be removed',
    );
  });
  it('resize allows changes of pod-level cpu and memory if the pod had them', () => {
    const whole = (cpu: string, more: TestObject = {}) => ({
      requests: { cpu, memory: '1Gi' },
      limits: { cpu: '4', memory: '4Gi' },
      ...more,
    });
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
