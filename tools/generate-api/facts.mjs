// Facts of Kubernetes 1.36 that the tables of the specification do not hold.

/** Discovery lists groups in this order; the core group is apart. */
export const groupOrder = [
  '',
  'apiregistration.k8s.io',
  'apps',
  'events.k8s.io',
  'authentication.k8s.io',
  'authorization.k8s.io',
  'autoscaling',
  'batch',
  'certificates.k8s.io',
  'networking.k8s.io',
  'policy',
  'rbac.authorization.k8s.io',
  'storage.k8s.io',
  'admissionregistration.k8s.io',
  'apiextensions.k8s.io',
  'scheduling.k8s.io',
  'coordination.k8s.io',
  'node.k8s.io',
  'discovery.k8s.io',
  'flowcontrol.apiserver.k8s.io',
  'internal.apiserver.k8s.io',
  'resource.k8s.io',
  'storagemigration.k8s.io',
];

/** Resources of which the API definition describes a watch that no server has. */
export const unwatched = new Set(['componentstatuses']);

/** resource -> short names. */
export const shortNames = {
  componentstatuses: ['cs'],
  configmaps: ['cm'],
  endpoints: ['ep'],
  events: ['ev'],
  limitranges: ['limits'],
  namespaces: ['ns'],
  nodes: ['no'],
  persistentvolumeclaims: ['pvc'],
  persistentvolumes: ['pv'],
  pods: ['po'],
  replicationcontrollers: ['rc'],
  resourcequotas: ['quota'],
  serviceaccounts: ['sa'],
  services: ['svc'],
  customresourcedefinitions: ['crd', 'crds'],
  daemonsets: ['ds'],
  deployments: ['deploy'],
  replicasets: ['rs'],
  statefulsets: ['sts'],
  horizontalpodautoscalers: ['hpa'],
  cronjobs: ['cj'],
  certificatesigningrequests: ['csr'],
  ingresses: ['ing'],
  networkpolicies: ['netpol'],
  ipaddresses: ['ip'],
  poddisruptionbudgets: ['pdb'],
  priorityclasses: ['pc'],
  storageclasses: ['sc'],
  volumeattributesclasses: ['vac'],
};

/** category -> resources. */
export const categories = {
  all: [
    'pods',
    'replicationcontrollers',
    'services',
    'daemonsets',
    'deployments',
    'replicasets',
    'statefulsets',
    'horizontalpodautoscalers',
    'cronjobs',
    'jobs',
  ],
  'api-extensions': [
    'mutatingadmissionpolicies',
    'mutatingadmissionpolicybindings',
    'mutatingwebhookconfigurations',
    'validatingadmissionpolicies',
    'validatingadmissionpolicybindings',
    'validatingwebhookconfigurations',
    'customresourcedefinitions',
    'apiservices',
  ],
};

/** Go packages whose API group is not `<package>` or `<package>.k8s.io`. */
export const groupOfPackage = {
  core: '',
  apps: 'apps',
  autoscaling: 'autoscaling',
  batch: 'batch',
  policy: 'policy',
  extensions: 'extensions',
  rbac: 'rbac.authorization.k8s.io',
  flowcontrol: 'flowcontrol.apiserver.k8s.io',
  apiserverinternal: 'internal.apiserver.k8s.io',
};

/** Messages that travel as JSON and have no OpenAPI definition: their JSON form is taken from the protobuf table. */
export const jsonMessages = {
  'k8s.io.api.core.v1': [
    'PodLogOptions',
    'PodExecOptions',
    'PodAttachOptions',
    'PodPortForwardOptions',
    'PodProxyOptions',
    'NodeProxyOptions',
    'ServiceProxyOptions',
    'RangeAllocation',
  ],
  'k8s.io.apimachinery.pkg.apis.meta.v1': [
    'ListOptions',
    'GetOptions',
    'CreateOptions',
    'UpdateOptions',
    'PatchOptions',
    'PartialObjectMetadata',
    'GroupVersionKind',
    'GroupVersionResource',
  ],
  'k8s.io.api.admission.v1': ['AdmissionRequest', 'AdmissionResponse', 'AdmissionReview'],
  'k8s.io.api.apidiscovery.v2': ['APIGroupDiscovery', 'APIResourceDiscovery', 'APISubresourceDiscovery', 'APIVersionDiscovery'],
  'k8s.io.api.apidiscovery.v2beta1': ['APIGroupDiscovery', 'APIResourceDiscovery', 'APISubresourceDiscovery', 'APIVersionDiscovery'],
};
export const jsonMessageKinds = new Set([
  'PodLogOptions',
  'PodExecOptions',
  'PodAttachOptions',
  'PodPortForwardOptions',
  'PodProxyOptions',
  'NodeProxyOptions',
  'ServiceProxyOptions',
  'RangeAllocation',
  'ListOptions',
  'GetOptions',
  'CreateOptions',
  'UpdateOptions',
  'PatchOptions',
  'PartialObjectMetadata',
  'AdmissionReview',
  'APIGroupDiscovery',
]);

/** Definitions that are one value on the wire: name -> primitive of the schema table. */
export const primitives = {
  'meta/v1.Quantity': 'quantity',
  'meta/v1.IntOrString': 'int-or-string',
  'meta/v1.Time': 'time',
  'meta/v1.MicroTime': 'micro-time',
  'meta/v1.RawExtension': 'any',
  'meta/v1.FieldsV1': 'any',
  'meta/v1.Patch': 'any',
  'apiextensions.k8s.io/v1.JSON': 'any',
};
/** In the apiextensions schema these hold either of two shapes, which no single type states: taken as they come. */
export const eitherOr = {
  'apiextensions.k8s.io/v1.JSONSchemaPropsOrArray': 'JSONSchemaProps | readonly JSONSchemaProps[]',
  'apiextensions.k8s.io/v1.JSONSchemaPropsOrBool': 'JSONSchemaProps | boolean',
  'apiextensions.k8s.io/v1.JSONSchemaPropsOrStringArray': 'JSONSchemaProps | readonly string[]',
};
