import { expect, it } from 'vitest';
import { applyDefaults } from '../../src/defaulting/apply-defaults.ts';
import { gvkOf } from '../../src/kinds.ts';
import type { KubeObject } from '../../src/object.ts';
import { validateObject } from '../../src/validation/validate-object.ts';

type Fields = Readonly<Record<string, unknown>>;
const lines = (object: Fields): string[] => {
  const gvk = gvkOf(object as unknown as KubeObject);
  const full = applyDefaults(gvk, { metadata: { name: 'x', namespace: 'a' }, ...object } as unknown as KubeObject);
  return validateObject(gvk, full).map(({ field, message }) => `${field}: ${message}`);
};
const cluster = { metadata: { name: 'x' } };
const label =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const containers = [{ name: 'c', image: 'i' }];
const set = (spec: object) => ({
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  spec: { selector: { matchLabels: { a: 'b' } }, template: { metadata: { labels: { a: 'b' } }, spec: { containers } }, ...spec },
});
const job = (onExitCodes: object) => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  spec: {
    selector: {},
    manualSelector: true,
    template: { spec: { restartPolicy: 'Never', containers } },
    podFailurePolicy: { rules: [{ action: 'FailJob', onExitCodes }] },
  },
});
const codes = 'spec.podFailurePolicy.rules[0].onExitCodes';
const limits = (limit: object) => ({ apiVersion: 'v1', kind: 'LimitRange', spec: { limits: [{ type: 'Container', ...limit }] } });
const quota = (hard: object) => ({ apiVersion: 'v1', kind: 'ResourceQuota', spec: { hard } });
const secret = (text: string) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  type: 'kubernetes.io/dockerconfigjson',
  data: { '.dockerconfigjson': Buffer.from(text).toString('base64') },
});
const volume = (spec: object) => ({
  ...cluster,
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  spec: { capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOnce'], ...spec },
});
const runtime = (podFixed: object) => ({
  ...cluster,
  apiVersion: 'node.k8s.io/v1',
  kind: 'RuntimeClass',
  handler: 'h',
  overhead: { podFixed },
});

it.each<[string, Fields, string[]]>([
  [
    'how pods are managed',
    set({ podManagementPolicy: 'X' }),
    ["spec.podManagementPolicy: Invalid value: \"X\": must be 'OrderedReady' or 'Parallel'"],
  ],
  [
    'how a set is updated',
    set({ updateStrategy: { type: 'Y' } }),
    ['spec.updateStrategy: Invalid value: {"type":"Y"}: must be \'RollingUpdate\' or \'OnDelete\''],
  ],
  [
    'what becomes of claims',
    set({ persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Keep', whenScaled: 'Retain' } }),
    ['spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "Keep": supported values: "Delete", "Retain"'],
  ],
  ['the name of its Service', set({ serviceName: 'A_' }), [`spec.serviceName: Invalid value: "A_": ${label}`]],
  ['an exit code twice', job({ operator: 'In', values: [1, 1] }), [`${codes}.values[1]: Duplicate value: 1`]],
  ['exit codes in disorder', job({ operator: 'In', values: [2, 1] }), [`${codes}.values: Invalid value: [2,1]: must be ordered`]],
  [
    'a container that there is not',
    job({ operator: 'In', values: [1], containerName: 'z' }),
    [`${codes}.containerName: Invalid value: "z": must be one of the container or initContainer names in the pod template`],
  ],
  [
    'a default above the largest',
    limits({ default: { cpu: '3' }, max: { cpu: '2' }, defaultRequest: { cpu: '1' } }),
    ['spec.limits[0].default[cpu]: Invalid value: "2": default value 3 is greater than max value 2'],
  ],
  [
    'a request below the smallest',
    limits({ min: { cpu: '2' }, defaultRequest: { cpu: '1' }, default: { cpu: '3' }, max: { cpu: '4' } }),
    ['spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1'],
  ],
  [
    'a ratio below 1',
    limits({ maxLimitRequestRatio: { cpu: '500m' } }),
    ['spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1'],
  ],
  [
    'a ratio that nothing can have',
    limits({ min: { memory: '512Mi' }, max: { memory: '2Gi' }, maxLimitRequestRatio: { memory: '10' } }),
    ['spec.limits[0].maxLimitRequestRatio[memory]: Invalid value: "10": ratio 10 is greater than max/min = 4.000000'],
  ],
  [
    'quota scopes that do not exist',
    { apiVersion: 'v1', kind: 'ResourceQuota', spec: { hard: { pods: '1' }, scopes: ['BestEffort', 'Best'] } },
    ['spec.scopes: Invalid value: ["BestEffort","Best"]: unsupported scope'],
  ],
  [
    'a scope selector with a scope that is not in scopes',
    {
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      spec: { hard: { pods: '1' }, scopeSelector: { matchExpressions: [{ scopeName: 'Terminating', operator: 'Exists' }] } },
    },
    [],
  ],
  ['what no quota counts', quota({ foo: '1' }), ['spec.hard[foo]: Invalid value: "foo": must be a standard resource for quota']],
  [
    'what quotas count',
    quota({ 'requests.cpu': '1', 'count/foos.example.com': '1', 'hugepages-2Mi': '2Mi', 'services.nodeports': '1' }),
    [],
  ],
  [
    'credentials that are no JSON',
    secret('x'),
    ['data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid character \'x\' looking for beginning of value'],
  ],
  [
    'a volume that would be wiped with the machine',
    volume({ hostPath: { path: '/' }, persistentVolumeReclaimPolicy: 'Recycle' }),
    ["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"],
  ],
  ['one that would not', volume({ hostPath: { path: '/data' }, persistentVolumeReclaimPolicy: 'Recycle' }), []],
  ['what a sandbox costs', runtime({ cpu: '-1' }), ['overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0']],
])("%s yields Kubernetes' message", (_, object, expected) => {
  expect(lines(object)).toEqual(expected);
});
