import { generateKeyPairSync } from 'node:crypto';

type Fields = Readonly<Record<string, unknown>>;

/** A warning of Kubernetes 1.36: a write that causes it, and its text. */
export interface WarningFact {
  /** The behavior, as the predicate of the kind. */
  readonly title: string;
  /** The resource: `deployments.apps`. */
  readonly resource: string;
  readonly version?: string;
  readonly name?: string;
  /** The fields of the object, without kind, apiVersion and name. */
  readonly object: Fields;
  /** The operations that cause the warning; `create` and `update` by default. A status write sets `object.status`. */
  readonly on?: readonly ('create' | 'update' | 'status')[];
  /** The object before an update; by default the sample object of the kind. */
  readonly before?: Fields;
  /** True if the warnings are added to those about the version of the kind. */
  readonly isDeprecatedVersion?: true;
  readonly warnings: readonly string[];
}

/** A trigger in a pod: its metadata or spec, and the texts, in which `{}` is the path of the pod with a final dot, empty for a pod. */
interface PodFact {
  readonly title: string;
  readonly annotations?: Fields;
  readonly spec?: Fields;
  readonly container?: Fields;
  readonly warnings: readonly string[];
}

const affinity = (kind: string, terms: Fields) => ({ affinity: { [kind]: terms } });
const required = 'requiredDuringSchedulingIgnoredDuringExecution';
const preferred = 'preferredDuringSchedulingIgnoredDuringExecution';
const nullSelector = 'a null labelSelector results in matching no pod';
const oldLabels: readonly (readonly [string, string])[] = [
  ['beta.kubernetes.io/arch', 'deprecated since v1.14; use "kubernetes.io/arch" instead'],
  ['beta.kubernetes.io/os', 'deprecated since v1.14; use "kubernetes.io/os" instead'],
  ['failure-domain.beta.kubernetes.io/region', 'deprecated since v1.17; use "topology.kubernetes.io/region" instead'],
  ['failure-domain.beta.kubernetes.io/zone', 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'],
  ['beta.kubernetes.io/instance-type', 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'],
];
const [oldOs, osMessage] = ['beta.kubernetes.io/os', 'deprecated since v1.14; use "kubernetes.io/os" instead'];
const exists = { key: oldOs, operator: 'Exists' };
const fractional = (path: string, value: string) => `${path}: fractional byte value "${value}" is invalid, must be an integer`;
const volume = (title: string, source: Fields, path: string, message: string): PodFact => ({
  title: `has a ${title} volume`,
  spec: { volumes: [{ name: 'v', ...source }] },
  warnings: [`{}spec.volumes[0].${path}: ${message}`],
});
const overlap = (title: string, source: Fields, text: string): PodFact => ({
  title,
  spec: { volumes: [{ name: 'v', ...source }] },
  warnings: [`volume "v" ${text}`],
});
const same = [
  { key: 'a', path: 'x' },
  { key: 'b', path: 'x/y' },
];
const token = { serviceAccountToken: { path: 'x' } };
const ports = (title: string, list: readonly Fields[], ...warnings: string[]): PodFact => ({
  title,
  container: { ports: list },
  warnings,
});
const at = '{}spec.containers[0]';

const podFacts: readonly PodFact[] = [
  ...oldLabels.map(
    ([label, message]): PodFact => ({
      title: `selects nodes by ${label}`,
      spec: { nodeSelector: { [label]: 'x' } },
      warnings: [`{}spec.nodeSelector[${label}]: ${message}`],
    }),
  ),
  {
    title: 'requires a deprecated node label',
    spec: affinity('nodeAffinity', { [required]: { nodeSelectorTerms: [{ matchExpressions: [exists] }] } }),
    warnings: [`{}spec.affinity.nodeAffinity.${required}.nodeSelectorTerms[0].matchExpressions[0].key: ${oldOs} is ${osMessage}`],
  },
  {
    title: 'prefers a deprecated node label',
    spec: affinity('nodeAffinity', { [preferred]: [{ weight: 1, preference: { matchExpressions: [exists] } }] }),
    warnings: [`{}spec.affinity.nodeAffinity.${preferred}[0].preference.matchExpressions[0].key: ${oldOs} is ${osMessage}`],
  },
  {
    title: 'prefers a value that no label can have',
    spec: affinity('nodeAffinity', {
      [preferred]: [{ weight: 1, preference: { matchExpressions: [{ key: 'a', operator: 'In', values: ['-1'] }] } }],
    }),
    warnings: [
      `{}spec.affinity.nodeAffinity.${preferred}[0].preference.matchExpressions[0].values[0]: -1 is invalid, a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
    ],
  },
  {
    title: 'spreads over a deprecated node label',
    spec: { topologySpreadConstraints: [{ maxSkew: 1, topologyKey: oldOs, whenUnsatisfiable: 'DoNotSchedule', labelSelector: {} }] },
    warnings: [`{}spec.topologySpreadConstraints[0].topologyKey: ${oldOs} is ${osMessage}`],
  },
  {
    title: 'spreads without a selector',
    spec: { topologySpreadConstraints: [{ maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule' }] },
    warnings: [`{}spec.topologySpreadConstraints[0].labelSelector: ${nullSelector}`],
  },
  ...(['podAffinity', 'podAntiAffinity'] as const).flatMap((kind): PodFact[] => [
    {
      title: `requires ${kind} without a selector`,
      spec: affinity(kind, { [required]: [{ topologyKey: 'zone' }] }),
      warnings: [`{}spec.affinity.${kind}.${required}[0].labelSelector: ${nullSelector}`],
    },
    {
      title: `prefers ${kind} without a selector`,
      spec: affinity(kind, { [preferred]: [{ weight: 1, podAffinityTerm: { topologyKey: 'zone' } }] }),
      warnings: [`{}spec.affinity.${kind}.${preferred}[0].podAffinityTerm.labelSelector: ${nullSelector}`],
    },
  ]),
  {
    title: 'is annotated as critical',
    annotations: { 'scheduler.alpha.kubernetes.io/critical-pod': '' },
    warnings: [
      '{}metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the "priorityClassName" field instead',
    ],
  },
  ...['sysctls', 'unsafe-sysctls'].map(
    (name): PodFact => ({
      title: `is annotated with ${name}`,
      annotations: { [`security.alpha.kubernetes.io/${name}`]: 'a=b' },
      warnings: [`{}metadata.annotations[security.alpha.kubernetes.io/${name}]: non-functional in v1.11+; use the "sysctls" field instead`],
    }),
  ),
  {
    title: 'is annotated with a seccomp profile',
    annotations: { 'seccomp.security.alpha.kubernetes.io/pod': 'runtime/default' },
    warnings: [
      '{}metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "seccompProfile" field instead',
    ],
  },
  {
    title: 'is annotated with a seccomp profile of a container',
    annotations: { 'container.seccomp.security.alpha.kubernetes.io/c': 'runtime/default' },
    warnings: [
      '{}metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use the "seccompProfile" field instead',
    ],
  },
  {
    title: 'is annotated with an AppArmor profile of a container',
    annotations: { 'container.apparmor.security.beta.kubernetes.io/c': 'unconfined' },
    warnings: [
      '{}metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the "appArmorProfile" field instead',
    ],
  },
  volume('Photon', { photonPersistentDisk: { pdID: 'a' } }, 'photonPersistentDisk', 'deprecated in v1.11, non-functional in v1.16+'),
  volume('gitRepo', { gitRepo: { repository: 'a' } }, 'gitRepo', 'deprecated in v1.11, and disabled by default in v1.33+'),
  volume(
    'ScaleIO',
    { scaleIO: { gateway: 'g', system: 's', volumeName: 'v', secretRef: { name: 's' } } },
    'scaleIO',
    'deprecated in v1.16, non-functional in v1.22+',
  ),
  volume('Flocker', { flocker: { datasetName: 'a' } }, 'flocker', 'deprecated in v1.22, non-functional in v1.25+'),
  volume('StorageOS', { storageos: { volumeName: 'v' } }, 'storageOS', 'deprecated in v1.22, non-functional in v1.25+'),
  volume('Quobyte', { quobyte: { registry: 'r:1', volume: 'v' } }, 'quobyte', 'deprecated in v1.22, non-functional in v1.25+'),
  volume('GlusterFS', { glusterfs: { endpoints: 'e', path: 'p' } }, 'glusterfs', 'deprecated in v1.25, non-functional in v1.26+'),
  volume('CephFS', { cephfs: { monitors: ['m'] } }, 'cephfs', 'deprecated in v1.28, non-functional in v1.31+'),
  volume('RBD', { rbd: { monitors: ['m'], image: 'i' } }, 'rbd', 'deprecated in v1.28, non-functional in v1.31+'),
  {
    title: 'has an ephemeral volume with a fractional size',
    spec: {
      volumes: [
        {
          name: 'v',
          ephemeral: {
            volumeClaimTemplate: { spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1500m' } } } },
          },
        },
      ],
    },
    warnings: [fractional('{}spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]', '1500m')],
  },
  overlap(
    'has a ConfigMap volume with overlapping paths',
    { configMap: { name: 'm', items: same } },
    '(ConfigMap "m"): overlapping paths: "x/y" with "x"',
  ),
  overlap(
    'has a Secret volume with overlapping paths',
    { secret: { secretName: 's', items: same } },
    '(Secret "s"): overlapping paths: "x/y" with "x"',
  ),
  overlap(
    'has a downward API volume with overlapping paths',
    { downwardAPI: { items: ['x', 'x/y'].map((path) => ({ path, fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } })) } },
    '(DownwardAPI): overlapping paths: "x/y" with "x"',
  ),
  overlap(
    'projects a token over a key of a ConfigMap',
    { projected: { sources: [{ configMap: { name: 'm', items: [{ key: 'a', path: 'x/f' }] } }, token] } },
    '(Projected): overlapping paths: "x" (ServiceAccountToken) with "x/f" (ConfigMap "m")',
  ),
  overlap(
    'projects a token over a trust bundle',
    { projected: { sources: [{ clusterTrustBundle: { name: 'b', path: 'x/f' } }, token] } },
    '(Projected): overlapping paths: "x" (ServiceAccountToken) with "x/f" (ClusterTrustBundle "b")',
  ),
  overlap('projects a source without a kind', { projected: { sources: [{}] } }, '(Projected) has no sources provided'),
  {
    title: 'repeats a host alias',
    spec: {
      hostAliases: [
        { ip: '10.0.0.1', hostnames: ['a'] },
        { ip: '10.0.0.1', hostnames: ['b'] },
      ],
    },
    warnings: ['{}spec.hostAliases[1].ip: duplicate ip "10.0.0.1"'],
  },
  {
    title: 'repeats an image pull secret',
    spec: { imagePullSecrets: [{ name: 'a' }, { name: 'a' }] },
    warnings: ['{}spec.imagePullSecrets[1].name: duplicate name "a"'],
  },
  {
    title: 'has an image pull secret without a name',
    spec: { imagePullSecrets: [{ name: '' }] },
    warnings: ['{}spec.imagePullSecrets[0].name: invalid empty name ""'],
  },
  {
    title: 'has a fractional overhead',
    spec: { overhead: { memory: '1500m' } },
    warnings: [fractional('{}spec.overhead[memory]', '1500m')],
  },
  ...['memory', 'ephemeral-storage'].flatMap((name): PodFact[] => [
    {
      title: `requests fractional ${name}`,
      container: { resources: { requests: { [name]: '1500m' } } },
      warnings: [fractional(`${at}.resources.requests[${name}]`, '1500m')],
    },
    {
      title: `limits fractional ${name}`,
      container: { resources: { limits: { [name]: '1500m' }, requests: { [name]: '1' } } },
      warnings: [fractional(`${at}.resources.limits[${name}]`, '1500m')],
    },
  ]),
  {
    title: 'repeats an environment variable',
    container: {
      env: [
        { name: 'A', value: '1' },
        { name: 'A', value: '2' },
      ],
    },
    warnings: [`${at}.env[1]: hides previous definition of "A", which may be dropped when using apply`],
  },
  ports(
    'has a host IP without a host port',
    [{ containerPort: 80, hostIP: '10.0.0.1' }],
    `${at}.ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:10.0.0.1}`,
  ),
  ports('repeats a port', [{ containerPort: 80 }, { containerPort: 80 }], `${at}.ports[1]: duplicate port definition with ${at}.ports[0]`),
  ports(
    'has a port with and without a host port',
    [{ containerPort: 80, hostPort: 80 }, { containerPort: 80 }],
    `${at}.ports[1]: overlapping port definition with ${at}.ports[0]`,
  ),
  ports(
    'has a host port with and without a host IP',
    [
      { containerPort: 80, hostPort: 80, hostIP: '10.0.0.1' },
      { containerPort: 80, hostPort: 80 },
    ],
    `${at}.ports[1]: dangerously ambiguous port definition with ${at}.ports[0]`,
  ),
  {
    title: 'repeats a port name in another container',
    spec: {
      containers: [
        { name: 'c', image: 'i', ports: [{ containerPort: 80, name: 'web' }] },
        { name: 'd', image: 'i', ports: [{ containerPort: 81, name: 'web' }] },
      ],
    },
    warnings: [
      '{}spec.containers[1].ports[0]: duplicate port name "web" with {}spec.containers[0].ports[0], services and probes that select ports by name will use {}spec.containers[0].ports[0]',
    ],
  },
  {
    title: 'has a negative grace period',
    spec: { terminationGracePeriodSeconds: -1 },
    warnings: ['{}spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1'],
  },
  {
    title: 'has a nameserver that is not canonical',
    spec: { dnsPolicy: 'None', dnsConfig: { nameservers: ['FD00::0a'] } },
    warnings: ['{}spec.dnsConfig.nameservers[0]: IPv6 address "FD00::0a" should be in RFC 5952 canonical format ("fd00::a")'],
  },
  {
    title: 'has a host alias that is not canonical',
    spec: { hostAliases: [{ ip: 'FD00::0a', hostnames: ['a'] }] },
    warnings: ['{}spec.hostAliases[0].ip: IPv6 address "FD00::0a" should be in RFC 5952 canonical format ("fd00::a")'],
  },
];

const labels = { app: 'x' };
const selector = { matchLabels: labels };

/** Returns the metadata and spec of a pod that causes a fact. */
const podOf = ({ annotations, spec, container }: PodFact, restartPolicy = 'Always') => ({
  metadata: { labels, ...(annotations && { annotations }) },
  spec: { restartPolicy, serviceAccountName: 'default', containers: [{ name: 'c', image: 'i', ...container }], ...spec },
});

/** A kind with a pod template: the path of the template, and the fields around it. */
interface TemplateKind {
  readonly resource: string;
  readonly path: string;
  readonly around: (fact: PodFact) => Fields;
}
const templateKinds: readonly TemplateKind[] = [
  { resource: 'pods', path: '', around: (fact) => podOf(fact) },
  { resource: 'podtemplates', path: 'template.', around: (fact) => ({ template: podOf(fact) }) },
  { resource: 'replicationcontrollers', path: 'spec.template.', around: (fact) => ({ spec: { selector: labels, template: podOf(fact) } }) },
  ...['deployments.apps', 'replicasets.apps', 'daemonsets.apps', 'statefulsets.apps'].map((resource) => ({
    resource,
    path: 'spec.template.',
    around: (fact: PodFact) => ({
      spec: { selector, template: podOf(fact), ...(resource === 'statefulsets.apps' && { serviceName: 's' }) },
    }),
  })),
  { resource: 'jobs.batch', path: 'spec.template.', around: (fact) => ({ spec: { template: podOf(fact, 'Never') } }) },
  {
    resource: 'cronjobs.batch',
    path: 'spec.jobTemplate.spec.template.',
    around: (fact) => ({ spec: { schedule: '0 0 * * *', jobTemplate: { spec: { template: podOf(fact, 'Never') } } } }),
  },
];

/** Pods and the templates of Jobs cannot be changed, so their warnings are those of a new object. */
const immutableTemplates: ReadonlySet<string> = new Set(['pods', 'jobs.batch']);

const templateFacts = templateKinds.flatMap(({ resource, path, around }) =>
  podFacts.map(
    (fact): WarningFact => ({
      title: `${fact.title}${path === '' ? '' : ' in its template'}`,
      resource,
      object: around(fact),
      on: immutableTemplates.has(resource) ? ['create'] : ['create', 'update'],
      warnings: fact.warnings.map((text) => text.replaceAll('{}', path)),
    }),
  ),
);

const service = (title: string, spec: Fields, ...warnings: string[]): WarningFact => ({
  title,
  resource: 'services',
  object: { spec: { ports: [{ port: 80 }], ...spec } },
  warnings,
});
const external = { type: 'ExternalName', externalName: 'a.example.com' };
const externalIPs = ['192.0.2.1'];
const canonical = (path: string) => `${path}: IPv6 address "FD00::0a" should be in RFC 5952 canonical format ("fd00::a")`;
const canonicalCIDR = (path: string) => `${path}: IPv6 CIDR value "FD00::/8" should be in RFC 5952 canonical format ("fd00::/8")`;

const serviceFacts: readonly WarningFact[] = [
  {
    title: 'has the annotation for topology-aware hints',
    resource: 'services',
    object: {
      metadata: { annotations: { 'service.kubernetes.io/topology-aware-hints': 'auto' } },
      spec: { ports: [{ port: 80 }] },
    },
    warnings: [
      'annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead',
    ],
  },
  {
    ...service(
      'is headless and has a load balancer IP',
      { clusterIP: 'None', loadBalancerIP: '192.0.2.1' },
      'spec.loadBalancerIP is ignored for headless services',
    ),
    on: ['create'],
  },
  {
    ...service('is headless and has external IPs', { clusterIP: 'None', externalIPs }, 'spec.externalIPs is ignored for headless services'),
    on: ['create'],
  },
  {
    ...service(
      'is headless and has session affinity',
      { clusterIP: 'None', sessionAffinity: 'ClientIP' },
      'spec.SessionAffinity is ignored for headless services',
    ),
    on: ['create'],
  },
  service('has external IPs', { externalIPs }, 'spec.externalIPs is deprecated and may no longer be implemented in some clusters'),
  service(
    'has an external IP that is not canonical',
    { externalIPs: ['FD00::0a'] },
    canonical('spec.externalIPs[0]'),
    'spec.externalIPs is deprecated and may no longer be implemented in some clusters',
  ),
  service(
    'has a load balancer IP with leading zeros',
    { loadBalancerIP: '010.002.003.004' },
    'spec.loadBalancerIP: non-standard IP address "010.002.003.004" will be considered invalid in a future Kubernetes release: use "10.2.3.4"',
  ),
  service(
    'has an IPv4-mapped load balancer IP',
    { loadBalancerIP: '::ffff:1.2.3.4' },
    'spec.loadBalancerIP: non-standard IP address "::ffff:1.2.3.4" will be considered invalid in a future Kubernetes release: use "1.2.3.4"',
  ),
  service(
    'has a source range that is not canonical',
    { type: 'LoadBalancer', loadBalancerSourceRanges: ['FD00::/8'] },
    canonicalCIDR('spec.loadBalancerSourceRanges[0]'),
  ),
  service(
    'has an external name that is ignored',
    { externalName: 'a.example.com' },
    'spec.externalName is ignored when spec.type is not "ExternalName"',
  ),
  {
    ...service(
      'is an alias with external IPs',
      { ...external, externalIPs },
      'spec.externalIPs is ignored when spec.type is "ExternalName"',
    ),
    on: ['create'],
  },
  service(
    'prefers close endpoints',
    { trafficDistribution: 'PreferClose' },
    'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
  ),
  {
    title: 'has a status with an address that is not canonical',
    resource: 'services',
    on: ['status'],
    before: { spec: { type: 'LoadBalancer', ports: [{ port: 80 }] } },
    object: { status: { loadBalancer: { ingress: [{ ip: 'FD00::0a' }] } } },
    warnings: [canonical('status.loadBalancer.ingress[0]')],
  },
];

const networkFacts: readonly WarningFact[] = [
  {
    title: 'has an address that is not canonical',
    resource: 'endpoints',
    isDeprecatedVersion: true,
    object: { subsets: [{ addresses: [{ ip: 'FD00::0a' }], notReadyAddresses: [{ ip: 'FD00::0A' }], ports: [{ port: 80 }] }] },
    warnings: [canonical('subsets[0].addresses[0].ip'), canonical('subsets[0].notReadyAddresses[0].ip').replace('::0a"', '::0A"')],
  },
  { title: 'has a deprecated version', resource: 'endpoints', isDeprecatedVersion: true, object: {}, warnings: [] },
  {
    title: 'has addresses that are names',
    resource: 'endpointslices.discovery.k8s.io',
    on: ['create'],
    object: { addressType: 'FQDN', endpoints: [{ addresses: ['a.example.com'] }], ports: [] },
    warnings: ['spec.addressType: FQDN endpoints are deprecated'],
  },
  {
    title: 'has an address that is not canonical',
    resource: 'endpointslices.discovery.k8s.io',
    before: { addressType: 'IPv6', endpoints: [], ports: [] },
    object: { addressType: 'IPv6', endpoints: [{ addresses: ['FD00::0a'] }], ports: [] },
    warnings: [canonical('endpoints[0].addresses[0]')],
  },
  {
    title: 'has the class annotation',
    resource: 'ingresses.networking.k8s.io',
    on: ['create'],
    object: {
      metadata: { annotations: { 'kubernetes.io/ingress.class': 'nginx' } },
      spec: { defaultBackend: { service: { name: 's', port: { number: 80 } } } },
    },
    warnings: [`annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead`],
  },
  {
    title: 'has a status with an address that is not canonical',
    resource: 'ingresses.networking.k8s.io',
    on: ['status'],
    object: { status: { loadBalancer: { ingress: [{ ip: 'FD00::0a' }] } } },
    warnings: [canonical('status.loadBalancer.ingress[0].ip')],
  },
  ...(['ingress', 'egress'] as const).map((direction): WarningFact => {
    const peers = direction === 'ingress' ? 'from' : 'to';
    const path = `spec.${direction}[0].${peers}[0].ipBlock`;
    return {
      title: `has an ${direction} block that is not canonical`,
      resource: 'networkpolicies.networking.k8s.io',
      object: {
        spec: { podSelector: {}, [direction]: [{ [peers]: [{ ipBlock: { cidr: 'FD00::/8', except: ['FD00:A::/32'] } }] }] },
      },
      warnings: [
        canonicalCIDR(`${path}.cidr`),
        `${path}.except[0]: IPv6 CIDR value "FD00:A::/32" should be in RFC 5952 canonical format ("fd00:a::/32")`,
      ],
    };
  }),
];

const recycle =
  'spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.';
const persistentVolume = (title: string, source: Fields, path: string, message: string): WarningFact => ({
  title: `is a ${title} volume`,
  resource: 'persistentvolumes',
  on: ['create'],
  object: { spec: { capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOnce'], ...source } },
  warnings: [`spec.${path}: ${message}`],
});
const classAnnotation = 'volume.beta.kubernetes.io/storage-class';
const classMessage = `metadata.annotations[${classAnnotation}]: deprecated since v1.8; use "storageClassName" attribute instead`;
const claim = (size: string) => ({ accessModes: ['ReadWriteOnce'], resources: { requests: { storage: size } } });

const storageFacts: readonly WarningFact[] = [
  {
    title: 'has the storage class annotation',
    resource: 'persistentvolumeclaims',
    on: ['create'],
    object: { metadata: { annotations: { [classAnnotation]: 'x' } }, spec: claim('1Gi') },
    warnings: [classMessage],
  },
  {
    title: 'requests a fractional size',
    resource: 'persistentvolumeclaims',
    on: ['create'],
    object: { spec: claim('1500m') },
    warnings: [fractional('spec.resources.requests[storage]', '1500m')],
  },
  {
    title: 'limits a fractional size',
    resource: 'persistentvolumeclaims',
    on: ['create'],
    object: { spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1' }, limits: { storage: '1500m' } } } },
    warnings: [fractional('spec.resources.limits[storage]', '1500m')],
  },
  {
    title: 'has the storage class annotation',
    resource: 'persistentvolumes',
    object: {
      metadata: { annotations: { [classAnnotation]: 'x' } },
      spec: { capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOnce'], hostPath: { path: '/x' } },
    },
    warnings: [classMessage],
    on: ['create'],
  },
  {
    title: 'is recycled',
    resource: 'persistentvolumes',
    on: ['create'],
    object: {
      spec: {
        capacity: { storage: '1Gi' },
        accessModes: ['ReadWriteOnce'],
        hostPath: { path: '/x' },
        persistentVolumeReclaimPolicy: 'Recycle',
      },
    },
    warnings: [recycle],
  },
  {
    title: 'requires a deprecated node label',
    resource: 'persistentvolumes',
    on: ['create'],
    object: {
      spec: {
        capacity: { storage: '1Gi' },
        accessModes: ['ReadWriteOnce'],
        hostPath: { path: '/x' },
        nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [exists] }] } },
      },
    },
    warnings: [`spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: ${oldOs} is ${osMessage}`],
  },
  persistentVolume('CephFS', { cephfs: { monitors: ['m'] } }, 'cephfs', 'deprecated in v1.28, non-functional in v1.31+'),
  persistentVolume(
    'Photon',
    { photonPersistentDisk: { pdID: 'a' } },
    'photonPersistentDisk',
    'deprecated in v1.11, non-functional in v1.16+',
  ),
  persistentVolume(
    'ScaleIO',
    { scaleIO: { gateway: 'g', system: 's', volumeName: 'v', secretRef: { name: 's' } } },
    'scaleIO',
    'deprecated in v1.16, non-functional in v1.22+',
  ),
  persistentVolume(
    'StorageOS',
    { storageos: { volumeName: 'v', volumeNamespace: 'n' } },
    'storageOS',
    'deprecated in v1.22, non-functional in v1.25+',
  ),
  persistentVolume('GlusterFS', { glusterfs: { endpoints: 'e', path: 'p' } }, 'glusterfs', 'deprecated in v1.25, non-functional in v1.26+'),
  persistentVolume('RBD', { rbd: { monitors: ['m'], image: 'i' } }, 'rbd', 'deprecated in v1.28, non-functional in v1.31+'),
  {
    title: 'has a topology of a deprecated node label',
    resource: 'storageclasses.storage.k8s.io',
    on: ['create'],
    object: { provisioner: 'x', allowedTopologies: [{ matchLabelExpressions: [{ key: oldOs, values: ['linux'] }] }] },
    warnings: [`allowedTopologies[0].matchLabelExpressions[0].key: ${osMessage}`],
  },
  {
    title: 'has a topology of deprecated node labels',
    resource: 'csistoragecapacities.storage.k8s.io',
    on: ['create'],
    object: { storageClassName: 'x', nodeTopology: { matchExpressions: [exists], matchLabels: { [oldOs]: 'linux' } } },
    warnings: [`nodeTopology.matchExpressions[0].key: ${oldOs} is ${osMessage}`, `nodeTopology.matchLabels.${oldOs}: ${osMessage}`],
  },
];

const dotted = 'a.b';
const nameMessage = (use: string) =>
  `metadata.name: this is used in ${use}, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]`;
const plain: PodFact = { title: '', warnings: [] };
const nameFacts = templateKinds
  .filter(({ resource }) => !['podtemplates', 'daemonsets.apps', 'statefulsets.apps'].includes(resource))
  .map(
    ({ resource, around }): WarningFact => ({
      title: 'has a name that is not a DNS label',
      resource,
      name: dotted,
      on: ['create'],
      object: around(plain),
      warnings: [nameMessage(resource === 'pods' ? "the Pod's hostname" : 'Pod names and hostnames')],
    }),
  );

const statefulSet = (spec: Fields) => ({ spec: { selector, serviceName: 's', template: podOf(plain), ...spec } });
const workloadFacts: readonly WarningFact[] = [
  {
    title: 'has a claim template with a fractional size',
    resource: 'statefulsets.apps',
    on: ['create'],
    object: statefulSet({ volumeClaimTemplates: [{ metadata: { name: 'd' }, spec: claim('1500m') }] }),
    warnings: [fractional('spec.volumeClaimTemplates[0].resources.requests[storage]', '1500m')],
  },
  {
    title: 'has a negative history limit',
    resource: 'statefulsets.apps',
    object: statefulSet({ revisionHistoryLimit: -1 }),
    warnings: ['spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended'],
  },
  {
    title: 'has more indexes than can be tracked',
    resource: 'jobs.batch',
    on: ['create'],
    object: {
      spec: { completionMode: 'Indexed', completions: 100_001, parallelism: 10_001, template: podOf(plain, 'Never') },
    },
    warnings: [
      'spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail',
    ],
  },
  {
    title: 'has a status with an address that is not canonical',
    resource: 'pods',
    on: ['status'],
    object: { status: { podIP: 'FD00::0a', podIPs: [{ ip: 'FD00::0a' }] } },
    warnings: [canonical('status.podIPs[0].ip')],
  },
];

const keyOf = () => generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
const base64 = (text: string) => Buffer.from(text).toString('base64');
const tlsSecret = (title: string, certificate: string, key: string, warning: string): WarningFact => ({
  title,
  resource: 'secrets',
  object: { type: 'kubernetes.io/tls', data: { 'tls.crt': base64(certificate), 'tls.key': base64(key) } },
  before: { type: 'kubernetes.io/tls', data: { 'tls.crt': base64('x'), 'tls.key': base64('x') } },
  warnings: [warning],
});
const tlsFacts: readonly WarningFact[] = [
  tlsSecret('has no certificate', 'x', 'y', 'tls: failed to find any PEM data in certificate input'),
  tlsSecret(
    'has a key instead of a certificate',
    keyOf(),
    keyOf(),
    'tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched',
  ),
];

const otherFacts: readonly WarningFact[] = [
  {
    title: 'limits mountable secrets',
    resource: 'serviceaccounts',
    object: { metadata: { annotations: { 'kubernetes.io/enforce-mountable-secrets': 'true' } } },
    warnings: [
      'metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets',
    ],
  },
  {
    title: 'has an external ID',
    resource: 'nodes',
    on: ['create'],
    object: { spec: { externalID: 'x' } },
    warnings: ['spec.externalID: this field is deprecated, and is unused by Kubernetes'],
  },
  {
    title: 'selects a deprecated node label',
    resource: 'runtimeclasses.node.k8s.io',
    on: ['create'],
    object: { handler: 'h', scheduling: { nodeSelector: { [oldOs]: 'linux' } } },
    warnings: [`scheduling.nodeSelector: ${osMessage}`],
  },
  {
    title: 'repeats an owner reference',
    resource: 'configmaps',
    object: { metadata: { ownerReferences: [1, 2].map(() => ({ apiVersion: 'v1', kind: 'Pod', name: 'p', uid: 'u' })) } },
    warnings: [
      '.metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u',
    ],
  },
  {
    title: 'has a string format that is not validated',
    resource: 'customresourcedefinitions.apiextensions.k8s.io',
    name: 'things.example.com',
    on: ['create'],
    object: {
      spec: {
        group: 'example.com',
        names: { plural: 'things', kind: 'Thing' },
        scope: 'Namespaced',
        versions: [
          {
            name: 'v1',
            served: true,
            storage: true,
            schema: {
              openAPIV3Schema: {
                type: 'object',
                properties: { a: { type: 'string', format: 'odd' }, b: { type: 'integer', format: 'int64' } },
              },
            },
          },
        ],
      },
    },
    warnings: ['unrecognized format "odd"'],
  },
];

export const endpointsDeprecation = 'v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice';

/** The warnings of 1.36 about the content of an object. */
export const warningFacts: readonly WarningFact[] = [
  ...templateFacts,
  ...nameFacts,
  ...workloadFacts,
  ...serviceFacts,
  ...networkFacts,
  ...storageFacts,
  ...tlsFacts,
  ...otherFacts,
];
