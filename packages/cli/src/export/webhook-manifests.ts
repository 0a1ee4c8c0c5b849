import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import * as resources from '@oarlock/api/resources';
import { groupResource, type Resource } from '@oarlock/api/resource';
import type { AdmissionPlugin, AdmissionRule } from '@oarlock/spi/admission';

/** Input for the manifests of an exported plugin. */
export interface Exported {
  readonly slot: 'admission' | 'authn' | 'authz';
  /** Name of all objects. */
  readonly name: string;
  readonly namespace: string;
  readonly image: string;
  readonly config: unknown;
  readonly rules: readonly PolicyRule[];
  /** The CA certificate in PEM. */
  readonly ca: string;
  readonly certificate: string;
  readonly key: string;
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly timeoutSeconds: number;
  /** URL of the webhook server; absent if clients use the Service. */
  readonly url?: string;
  readonly needsClient: boolean;
}
type Manifest = Readonly<Record<string, unknown>>;

const port = 8443;
/** Ports of the server on control plane nodes: an API server cannot resolve Service names for authn and authz webhooks at startup. */
const hostPorts = { authn: 9444, authz: 9445 } as const;

/**
 * Returns the port on which the server listens. On the host network, this is the port of the server's URL, so that several servers can run on one
 * node.
 */
export function listensAt({ slot, url }: Pick<Exported, 'slot' | 'url'>): number {
  if (slot === 'admission') return port;
  if (url === undefined) return hostPorts[slot];
  const urlPort = new URL(url).port;
  return urlPort === '' ? 443 : Number(urlPort);
}
/** Numeric id of the user and group as which the server runs. */
const user = 65_532;
const base64 = (text: string) => Buffer.from(text).toString('base64');

/** Returns the files of the folder `manifests`, in the order in which kubectl applies them. */
export function manifestsOf(exported: Exported, plugin: AdmissionPlugin | undefined): ReadonlyMap<string, readonly Manifest[]> {
  return new Map<string, readonly Manifest[]>([
    ['10-namespace.yaml', [namespaceOf(exported)]],
    ['20-access.yaml', accessOf(exported)],
    ['30-server.yaml', [...secretsOf(exported), deploymentOf(exported), ...(exported.slot === 'admission' ? [serviceOf(exported)] : [])]],
    ...(plugin === undefined ? [] : ([['40-webhook.yaml', webhooksOf(exported, plugin)]] as const)),
  ]);
}

const labelsOf = ({ name }: Exported) => ({ 'app.kubernetes.io/name': name, 'app.kubernetes.io/managed-by': 'oarlock' });
const metadataOf = (exported: Exported, namespaced = true) => ({
  name: exported.name,
  ...(namespaced && { namespace: exported.namespace }),
  labels: labelsOf(exported),
});

function namespaceOf({ namespace, slot }: Exported): Manifest {
  // the restricted and baseline levels forbid hostNetwork
  const level = slot === 'admission' ? 'restricted' : 'privileged';
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels: { 'pod-security.kubernetes.io/enforce': level } } };
}

function accessOf(exported: Exported): readonly Manifest[] {
  const { name, namespace, rules, needsClient } = exported;
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: metadataOf(exported), automountServiceAccountToken: needsClient };
  if (rules.length === 0) return [account];
  const rbac = 'rbac.authorization.k8s.io';
  return [
    account,
    { apiVersion: `${rbac}/v1`, kind: 'ClusterRole', metadata: metadataOf(exported, false), rules },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'ClusterRoleBinding',
      metadata: metadataOf(exported, false),
      roleRef: { apiGroup: rbac, kind: 'ClusterRole', name },
      subjects: [{ kind: 'ServiceAccount', name, namespace }],
    },
  ];
}

function secretsOf(exported: Exported): readonly Manifest[] {
  const { config, certificate, key } = exported;
  return [
    {
      apiVersion: 'v1',
      kind: 'Secret',
      type: 'kubernetes.io/tls',
      metadata: metadataOf(exported),
      data: { 'tls.crt': base64(certificate), 'tls.key': base64(key) },
    },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: metadataOf(exported), data: { 'config.json': JSON.stringify(config, null, 2) } },
  ];
}

function deploymentOf(exported: Exported): Manifest {
  const { name, slot, image, needsClient } = exported;
  const onHost = slot !== 'admission';
  const listen = listensAt(exported);
  const probe = (path: string) => ({ httpGet: { scheme: 'HTTPS', path, port: listen, ...(onHost && { host: '127.0.0.1' }) } });
  const selector = { 'app.kubernetes.io/name': name };
  const spec = {
    serviceAccountName: name,
    automountServiceAccountToken: needsClient,
    ...(onHost && {
      hostNetwork: true,
      nodeSelector: { 'node-role.kubernetes.io/control-plane': '' },
      tolerations: [{ operator: 'Exists' }],
      priorityClassName: 'system-cluster-critical',
    }),
    securityContext: { runAsNonRoot: true, runAsUser: user, runAsGroup: user, fsGroup: user, seccompProfile: { type: 'RuntimeDefault' } },
    terminationGracePeriodSeconds: 15,
    containers: [
      {
        name: 'webhook',
        image,
        args: ['--port', String(listen), ...(onHost ? ['--address', '127.0.0.1'] : [])],
        ports: [{ name: 'https', containerPort: listen }],
        livenessProbe: probe('/healthz'),
        readinessProbe: { ...probe('/readyz'), periodSeconds: 2 },
        resources: { requests: { cpu: '20m', memory: '64Mi' }, limits: { memory: '256Mi' } },
        securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
        volumeMounts: [
          { name: 'tls', mountPath: '/etc/oarlock/tls', readOnly: true },
          { name: 'config', mountPath: '/etc/oarlock/config', readOnly: true },
        ],
      },
    ],
    volumes: [
      { name: 'tls', secret: { secretName: name, defaultMode: 0o440 } },
      { name: 'config', configMap: { name } },
    ],
  };
  const template = { metadata: { labels: labelsOf(exported) }, spec };
  const common = { apiVersion: 'apps/v1', metadata: metadataOf(exported) };
  if (onHost) return { ...common, kind: 'DaemonSet', spec: { selector: { matchLabels: selector }, template } };
  return { ...common, kind: 'Deployment', spec: { replicas: 2, selector: { matchLabels: selector }, template } };
}

const serviceOf = (exported: Exported): Manifest => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: metadataOf(exported),
  spec: { selector: { 'app.kubernetes.io/name': exported.name }, ports: [{ name: 'https', port: 443, targetPort: 'https' }] },
});

function webhooksOf(exported: Exported, plugin: AdmissionPlugin): readonly Manifest[] {
  const { name, namespace, failurePolicy, timeoutSeconds, ca, url, needsClient } = exported;
  const hook = (path: string, more: Manifest = {}) => ({
    name: `${name}.${namespace}.svc`,
    admissionReviewVersions: ['v1'],
    clientConfig: {
      caBundle: base64(ca),
      ...(url === undefined ? { service: { name, namespace, path } } : { url: `${url.replace(/\/$/, '')}${path}` }),
    },
    rules: webhookRules(plugin),
    matchPolicy: 'Equivalent',
    failurePolicy,
    timeoutSeconds,
    // the admission slot's contract requires that a dry run writes nothing
    sideEffects: needsClient ? 'NoneOnDryRun' : 'None',
    // the server's own pods are exempt: otherwise none could be created while no server runs
    namespaceSelector: { matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: [namespace] }] },
    ...more,
  });
  const configuration = (kind: string, webhook: Manifest): Manifest => ({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind,
    metadata: metadataOf(exported, false),
    webhooks: [webhook],
  });
  return [
    ...(plugin.mutate ? [configuration('MutatingWebhookConfiguration', hook('/mutate', { reinvocationPolicy: 'IfNeeded' }))] : []),
    ...(plugin.validate ? [configuration('ValidatingWebhookConfiguration', hook('/validate'))] : []),
  ];
}

const served = new Map((Object.values(resources) as readonly Resource[]).map((each) => [groupResource(each), each]));

/** Returns the rules of a webhook that is called for the requests that an admission plugin matches. */
export const webhookRules = ({ matches }: AdmissionPlugin): readonly object[] => matches.flatMap(rulesOf);

/** Returns rules of a webhook, one for each group: `deployments.apps/scale` becomes `deployments/scale` of `apps`. */
function rulesOf({ resources: names, operations }: AdmissionRule): readonly object[] {
  const groups = new Map<string, { readonly version: string; readonly names: string[] }>();
  for (const name of names) {
    if (name === '*') return [{ apiGroups: ['*'], apiVersions: ['*'], operations, resources: ['*/*'], scope: '*' }];
    const [plain = '', subresource] = name.split('/');
    const dot = plain.indexOf('.');
    const [plural, group] = dot < 0 ? [plain, ''] : [plain.slice(0, dot), plain.slice(dot + 1)];
    // plugins get the version that a default API server prefers; other versions are converted to it
    const version = served.get(plain)?.version ?? '*';
    const key = `${group}/${version}`;
    const known = groups.get(key) ?? { version, names: [] };
    known.names.push(subresource === undefined ? plural : `${plural}/${subresource}`);
    groups.set(key, known);
  }
  return [...groups].map(([key, each]) => ({
    apiGroups: [key.slice(0, key.lastIndexOf('/'))],
    apiVersions: [each.version],
    operations,
    resources: each.names,
    scope: '*',
  }));
}
