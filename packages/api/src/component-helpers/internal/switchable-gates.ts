/**
 * The feature gates of which Oarlock implements both values, and what each one switches. The other gates are fixed at their defaults in Kubernetes
 * 1.36.
 */
export const switchableGates = {
  APIResponseCompression: 'the API server compresses large lists',
  ComponentFlagz: 'the API server serves `/flagz`',
  ComponentStatusz: 'the API server serves `/statusz`',
  ContainerRestartRules: 'the API keeps `restartPolicy` and `restartPolicyRules` of containers',
  EnvFiles: 'the API keeps `fileKeyRef` of environment variables',
  HPAConfigurableTolerance: 'the API keeps `tolerance` of the behavior of a HorizontalPodAutoscaler',
  HostnameOverride: 'the API keeps `hostnameOverride` of pods',
  MatchLabelKeysInPodTopologySpread: 'the API keeps `matchLabelKeys` of topology spread constraints',
  PodDeletionCost: 'ReplicaSets and ReplicationControllers follow the annotation `controller.kubernetes.io/pod-deletion-cost`',
  PodLevelResources: 'the API keeps `resources` of pods',
  PodTopologyLabelsAdmission: 'pods get the topology labels of their Node',
  RelaxedServiceNameValidation: 'names of Services may begin with a digit',
  RemoteRequestHeaderUID: 'the API server sends `X-Remote-Uid` to extension API servers',
  ServiceAccountNodeAudienceRestriction: 'nodes may request only the token audiences that their pods need',
  StorageVersionHash: 'discovery contains `storageVersionHash`',
} as const satisfies Readonly<Record<string, string>>;

/** Fixed gates that have no effect without another gate: they are off if the other gate is. */
export const dependentGates: Readonly<Record<string, keyof typeof switchableGates>> = {
  InPlacePodLevelResourcesVerticalScaling: 'PodLevelResources',
  MatchLabelKeysInPodTopologySpreadSelectorMerge: 'MatchLabelKeysInPodTopologySpread',
  RestartAllContainersOnContainerExits: 'ContainerRestartRules',
};
