import type { PolicyRule } from '@oarlock/api/types/rbac-v1';

export type ComponentKind = 'controller' | 'scheduler';

/** Input for the manifests of an exported controller or scheduler. */
export interface ExportedComponent {
  readonly kind: ComponentKind;
  /** Name of all objects and of the Lease. */
  readonly name: string;
  readonly namespace: string;
  readonly image: string;
  readonly config: unknown;
  readonly rules: readonly PolicyRule[];
  readonly replicas: number;
  readonly schedulerName: string;
}
type Manifest = Readonly<Record<string, unknown>>;

/** The port of /healthz, /readyz and /metrics. */
export const healthPort = 8080;
const user = 65_532;
const rbac = 'rbac.authorization.k8s.io';
/** Kubernetes' roles for a scheduler, which every cluster has. */
const schedulerRoles = ['system:kube-scheduler', 'system:volume-scheduler'];

/** Returns the files of the folder `manifests`, in the order in which kubectl applies them. */
export function componentManifests(exported: ExportedComponent): ReadonlyMap<string, readonly Manifest[]> {
  const { namespace, config } = exported;
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  return new Map<string, readonly Manifest[]>([
    ['10-namespace.yaml', [{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } }]],
    [
      '20-access.yaml',
      [{ apiVersion: 'v1', kind: 'ServiceAccount', metadata: metadataOf(exported) }, ...clusterAccess(exported), ...leaseAccess(exported)],
    ],
    [
      '30-component.yaml',
      [
        { apiVersion: 'v1', kind: 'ConfigMap', metadata: metadataOf(exported), data: { 'config.json': JSON.stringify(config, null, 2) } },
        deploymentOf(exported),
      ],
    ],
  ]);
}

/** Returns the flags with which the program runs. */
export const componentFlags = ({ kind, name, namespace, schedulerName }: ExportedComponent): readonly string[] => [
  `--leader-elect-resource-name=${name}`,
  `--leader-elect-resource-namespace=${namespace}`,
  ...(kind === 'scheduler' ? [`--scheduler-name=${schedulerName}`] : []),
];

const labelsOf = ({ name }: ExportedComponent) => ({ 'app.kubernetes.io/name': name, 'app.kubernetes.io/managed-by': 'oarlock' });
const metadataOf = (exported: ExportedComponent) => ({ name: exported.name, namespace: exported.namespace, labels: labelsOf(exported) });
const subjectsOf = ({ name, namespace }: ExportedComponent) => [{ kind: 'ServiceAccount', name, namespace }];

function clusterAccess(exported: ExportedComponent): readonly Manifest[] {
  const { kind, name, rules } = exported;
  const labels = labelsOf(exported);
  const binding = (bindingName: string, role: string): Manifest => ({
    apiVersion: `${rbac}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name: bindingName, labels },
    roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: role },
    subjects: subjectsOf(exported),
  });
  return [
    ...(rules.length === 0
      ? []
      : [{ apiVersion: `${rbac}/v1`, kind: 'ClusterRole', metadata: { name, labels }, rules }, binding(name, name)]),
    ...(kind === 'scheduler' ? schedulerRoles.map((role) => binding(`${name}:${role.slice('system:'.length)}`, role)) : []),
  ];
}

/** Returns a Role for the Lease. A rule for `create` cannot name objects. */
function leaseAccess(exported: ExportedComponent): readonly Manifest[] {
  const group = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] };
  const { name } = exported;
  return [
    {
      apiVersion: `${rbac}/v1`,
      kind: 'Role',
      metadata: metadataOf(exported),
      rules: [
        { ...group, verbs: ['create'] },
        { ...group, resourceNames: [name], verbs: ['get', 'update'] },
      ],
    },
    {
      apiVersion: `${rbac}/v1`,
      kind: 'RoleBinding',
      metadata: metadataOf(exported),
      roleRef: { apiGroup: rbac, kind: 'Role', name },
      subjects: subjectsOf(exported),
    },
  ];
}

function deploymentOf(exported: ExportedComponent): Manifest {
  const { kind, name, image, replicas } = exported;
  const matchLabels = { 'app.kubernetes.io/name': name };
  const probe = (path: string) => ({ httpGet: { path, port: 'health' } });
  const spec = {
    serviceAccountName: name,
    securityContext: { runAsNonRoot: true, runAsUser: user, runAsGroup: user, seccompProfile: { type: 'RuntimeDefault' } },
    terminationGracePeriodSeconds: 15,
    // replicas on different nodes, where there are several
    topologySpreadConstraints: [
      { maxSkew: 1, topologyKey: 'kubernetes.io/hostname', whenUnsatisfiable: 'ScheduleAnyway', labelSelector: { matchLabels } },
    ],
    containers: [
      {
        name: kind,
        image,
        args: componentFlags(exported),
        ports: [{ name: 'health', containerPort: healthPort }],
        livenessProbe: { ...probe('/healthz'), initialDelaySeconds: 10 },
        readinessProbe: { ...probe('/readyz'), periodSeconds: 2 },
        resources: { requests: { cpu: '20m', memory: '96Mi' }, limits: { memory: '512Mi' } },
        securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
        volumeMounts: [{ name: 'config', mountPath: '/etc/oarlock/config', readOnly: true }],
      },
    ],
    volumes: [{ name: 'config', configMap: { name } }],
  };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: metadataOf(exported),
    spec: { replicas, selector: { matchLabels }, template: { metadata: { labels: labelsOf(exported) }, spec } },
  };
}
