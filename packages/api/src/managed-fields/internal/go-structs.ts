/**
 * Members that are structs in Go, not pointers to structs. Go always writes them, so an object has them even if its JSON omits them.
 * By type name without the package.
 */
const structs: Readonly<Record<string, string>> = {
  AllocationResult: 'devices',
  Binding: 'target',
  ClusterRoleBinding: 'roleRef',
  Container: 'resources',
  ContainerResourceMetricSource: 'target',
  ContainerResourceMetricStatus: 'current',
  ContainerStatus: 'lastState state',
  CronJobSpec: 'jobTemplate',
  CustomResourceDefinitionSpec: 'names',
  CustomResourceDefinitionStatus: 'acceptedNames',
  DaemonSetSpec: 'template updateStrategy',
  DeploymentSpec: 'strategy template',
  DeviceTaintRuleSpec: 'taint',
  Endpoint: 'conditions',
  EphemeralContainer: 'resources',
  Event: 'deprecatedSource involvedObject regarding source',
  ExternalMetricSource: 'metric target',
  ExternalMetricStatus: 'current metric',
  FlowSchemaSpec: 'priorityLevelConfiguration',
  HTTPIngressPath: 'backend',
  HorizontalPodAutoscalerSpec: 'scaleTargetRef',
  IngressServiceBackend: 'port',
  IngressStatus: 'loadBalancer',
  JobSpec: 'template',
  LimitedPriorityLevelConfiguration: 'limitResponse',
  MutatingWebhook: 'clientConfig',
  NetworkPolicySpec: 'podSelector',
  NodeDaemonEndpoints: 'kubeletEndpoint',
  NodeStatus: 'daemonEndpoints nodeInfo',
  ObjectMetricSource: 'describedObject metric target',
  ObjectMetricStatus: 'current describedObject metric',
  PersistentVolumeClaimSpec: 'resources',
  PodTemplate: 'template',
  PodsMetricSource: 'metric target',
  PodsMetricStatus: 'current metric',
  PreferredSchedulingTerm: 'preference',
  ReplicaSetSpec: 'template',
  ResourceClaimSpec: 'devices',
  ResourceMetricSource: 'target',
  ResourceMetricStatus: 'current',
  ResourceSliceSpec: 'pool',
  RoleBinding: 'roleRef',
  SelfSubjectReviewStatus: 'userInfo',
  ServiceStatus: 'loadBalancer',
  StatefulSetSpec: 'template updateStrategy',
  StorageVersionMigrationSpec: 'resource',
  TokenReviewStatus: 'user',
  ValidatingWebhook: 'clientConfig',
  VolumeAttachmentSpec: 'source',
  WeightedPodAffinityTerm: 'podAffinityTerm',
};

/** Returns true if a member is a struct in Go. `metadata`, `spec` and `status` are, with few exceptions. */
export function isGoStruct(type: string, name: string): boolean {
  if (name === 'metadata' || name === 'spec' || name === 'status') return true;
  return Object.hasOwn(structs, type) && (structs[type] ?? '').split(' ').includes(name);
}
