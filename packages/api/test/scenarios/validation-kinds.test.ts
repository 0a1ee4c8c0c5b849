import { describe, expect, it } from 'vitest';
import { applyDefaults } from '../../src/defaulting/apply-defaults.ts';
import { gvkOf } from '../../src/kinds.ts';
import type { KubeObject } from '../../src/object.ts';
import { validateObject } from '../../src/validation/validate-object.ts';

const lines = (object: Record<string, unknown>, old?: Record<string, unknown>): string[] => {
  const gvk = gvkOf(object as unknown as KubeObject);
  const full = (value: Record<string, unknown>) =>
    applyDefaults(gvk, { metadata: { name: 'x', namespace: 'a' }, ...value } as unknown as KubeObject);
  return validateObject(gvk, full(object), old && full(old)).map(({ field, message }) => `${field}: ${message}`);
};
const cluster = { metadata: { name: 'x' } };
const template = { spec: { containers: [{ name: 'c', image: 'i' }], restartPolicy: 'Never' } };
const cron = (spec: object) => ({ apiVersion: 'batch/v1', kind: 'CronJob', spec: { jobTemplate: { spec: { template } }, ...spec } });
const ingress = (spec: object) => ({ apiVersion: 'networking.k8s.io/v1', kind: 'Ingress', spec });
const path = (more: object) => ingress({ rules: [{ host: 'a.b', http: { paths: [{ path: '/', pathType: 'Prefix', ...more }] } }] });
const service = { service: { name: 's', port: { number: 80 } } };
const policy = (spec: object) => ({ apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', spec: { podSelector: {}, ...spec } });
const hpa = (spec: object) => ({
  apiVersion: 'autoscaling/v2',
  kind: 'HorizontalPodAutoscaler',
  spec: { maxReplicas: 2, scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'd' }, ...spec },
});
const webhook = (more: object) => ({
  ...cluster,
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingWebhookConfiguration',
  webhooks: [{ name: 'a.b.c', sideEffects: 'None', admissionReviewVersions: ['v1'], clientConfig: { url: 'https://a/b' }, ...more }],
});
const hook = 'webhooks[0]';

describe('what is wrong with', () => {
  it.each<[string, Record<string, unknown>, string[]]>([
    [
      'a schedule',
      cron({ schedule: '61 * * * *' }),
      ['spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61'],
    ],
    [
      'a schedule with a zone',
      cron({ schedule: 'TZ=UTC 0 0 * * *' }),
      ['spec.schedule: Invalid value: "TZ=UTC 0 0 * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead'],
    ],
    [
      'a time zone',
      cron({ schedule: '@daily', timeZone: 'Mars/Base' }),
      ['spec.timeZone: Invalid value: "Mars/Base": unknown time zone Mars/Base'],
    ],
    [
      'a policy',
      cron({ schedule: '@daily', concurrencyPolicy: 'Never' }),
      ['spec.concurrencyPolicy: Unsupported value: "Never": supported values: "Allow", "Forbid", "Replace"'],
    ],
    ['an empty ingress', ingress({}), ['spec: Invalid value: []: either `defaultBackend` or `rules` must be specified']],
    [
      'a relative path',
      path({ path: 'a', backend: service }),
      ['spec.rules[0].http.paths[0].path: Invalid value: "a": must be an absolute path'],
    ],
    ['a Service whose name begins with a digit', path({ backend: { service: { ...service.service, name: '1a' } } }), []],
    [
      'the name of a Service',
      path({ backend: { service: { ...service.service, name: 'a.b' } } }),
      ['spec.rules[0].http.paths[0].backend.service.name: Invalid value: "a.b": must not contain dots'],
    ],
    ['a backend', path({}), ['spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is required']],
    [
      'a backend port',
      path({ backend: { service: { name: 's' } } }),
      ['spec.rules[0].http.paths[0].backend: Required value: port name or number is required'],
    ],
    ['a peer', policy({ ingress: [{ from: [{}] }] }), ['spec.ingress[0].from[0]: Required value: must specify a peer']],
    [
      'an address block',
      policy({ egress: [{ to: [{ ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16', '11.0.0.0/16'] } }] }] }),
      ['spec.egress[0].to[0].ipBlock.except[1]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`'],
    ],
    [
      'an end port',
      policy({ ingress: [{ ports: [{ port: 90, endPort: 80 }] }] }),
      ['spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`'],
    ],
    ['replicas', hpa({ minReplicas: 3 }), ['spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`']],
    [
      'a metric',
      hpa({ metrics: [{ type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization' } } }] }),
      ['spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization'],
    ],
    [
      'a budget',
      { apiVersion: 'policy/v1', kind: 'PodDisruptionBudget', spec: { minAvailable: '120%' } },
      ['spec.minAvailable: Invalid value: "120%": must not be greater than 100%'],
    ],
    [
      'a rule',
      { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', rules: [{ nonResourceURLs: ['/x'], verbs: [] }] },
      [
        'rules[0].verbs: Required value: verbs must contain at least one value',
        'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
      ],
    ],
    [
      'a binding',
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        roleRef: { kind: 'Roles', name: 'r' },
        subjects: [{ kind: 'Robot', name: 'r' }],
      },
      [
        'roleRef.kind: Unsupported value: "Roles": supported values: "Role", "ClusterRole"',
        'subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"',
      ],
    ],
    [
      'a class',
      { ...cluster, apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', provisioner: 'p', reclaimPolicy: 'Recycle' },
      ['reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"'],
    ],
    [
      'a webhook name',
      webhook({ name: 'a.b' }),
      [`${hook}.name: Invalid value: "a.b": should be a domain with at least three segments separated by dots`],
    ],
    ['side effects', webhook({ sideEffects: undefined }), [`${hook}.sideEffects: Required value: must specify one of None, NoneOnDryRun`]],
    [
      'a timeout',
      webhook({ timeoutSeconds: 31 }),
      [`${hook}.timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds`],
    ],
    [
      'a URL',
      webhook({ clientConfig: { url: 'http://a/b' } }),
      [`${hook}.clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`],
    ],
    [
      'a priority',
      { ...cluster, apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass', value: 1_000_000_001 },
      ['value: Forbidden: maximum allowed value of a user defined priority is 1000000000'],
    ],
    [
      'a request for a certificate',
      {
        ...cluster,
        apiVersion: 'certificates.k8s.io/v1',
        kind: 'CertificateSigningRequest',
        spec: { request: 'eA==', signerName: 'x', usages: [], expirationSeconds: 5 },
      },
      [
        'spec.request: Invalid value: "eA==": PEM block type must be CERTIFICATE REQUEST',
        'spec.usages: Required value',
        `spec.signerName: Invalid value: "x": must be a fully qualified domain and path of the form 'example.com/signer-name'`,
        'spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 600 seconds (10 minutes)',
      ],
    ],
    [
      'an API service',
      {
        metadata: { name: 'v1.y' },
        apiVersion: 'apiregistration.k8s.io/v1',
        kind: 'APIService',
        spec: { group: 'x', version: 'v1', groupPriorityMinimum: 1, versionPriority: 0 },
      },
      [
        'metadata.name: Invalid value: "v1.y": must be `spec.version+"."+spec.group`: "v1.x"',
        'spec.versionPriority: Invalid value: 0: must be positive and less than 1000',
      ],
    ],
    [
      'an address',
      { metadata: { name: '2001:DB8::1' }, apiVersion: 'networking.k8s.io/v1', kind: 'IPAddress', spec: {} },
      ['metadata.name: Invalid value: "2001:DB8::1": must be in canonical form ("2001:db8::1")', 'spec.parentRef: Required value'],
    ],
    [
      'ranges',
      { ...cluster, apiVersion: 'networking.k8s.io/v1', kind: 'ServiceCIDR', spec: { cidrs: ['10.0.0.0/24', '10.1.0.0/24'] } },
      [
        'spec.cidrs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64',
      ],
    ],
    [
      'ranges in another notation',
      { ...cluster, apiVersion: 'networking.k8s.io/v1', kind: 'ServiceCIDR', spec: { cidrs: ['10.0.0.1/24', '2001:0db8::/64'] } },
      [
        'spec.cidrs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length',
        'spec.cidrs[1]: Invalid value: "2001:0db8::/64": must be in canonical form ("2001:db8::/64")',
      ],
    ],
    [
      'a flow',
      {
        ...cluster,
        apiVersion: 'flowcontrol.apiserver.k8s.io/v1',
        kind: 'FlowSchema',
        spec: { matchingPrecedence: 1, priorityLevelConfiguration: {} },
      },
      [
        "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
        'spec.priorityLevelConfiguration.name: Required value: must reference a priority level',
      ],
    ],
    [
      'a claim',
      { apiVersion: 'resource.k8s.io/v1', kind: 'ResourceClaim', spec: { devices: { requests: [{ name: 'r' }] } } },
      ['spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required'],
    ],
  ])('%s', (_, object, expected) => {
    expect(lines(object)).toEqual(expected);
  });

  it('a job that is suspended and has not begun: its nodes may change', () => {
    const job = (spec: object, image = 'i') => ({
      metadata: { name: 'x', namespace: 'a', resourceVersion: '1' },
      apiVersion: 'batch/v1',
      kind: 'Job',
      spec: {
        suspend: true,
        selector: { matchLabels: { a: 'b' } },
        manualSelector: true,
        template: { metadata: { labels: { a: 'b' } }, spec: { ...template.spec, containers: [{ name: 'c', image }], ...spec } },
      },
    });
    expect(lines(job({ nodeSelector: { a: 'b' } }), job({}))).toEqual([]);
    expect(lines(job({}, 'other'), job({}))).toEqual([expect.stringMatching(/^spec\.template: Invalid value: .*: field is immutable$/)]);
  });
});
