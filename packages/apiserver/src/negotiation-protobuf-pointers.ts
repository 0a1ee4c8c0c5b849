/**
 * Fields whose zero value means something: Go has a pointer there, and writes it only when it was set. Of all other numbers, strings and
 * booleans, protobuf carries zeros that stand for nothing. By message, without its package: names mean the same in all versions.
 */
const pointers: Readonly<Record<string, string>> = {
  AllocatedDeviceStatus: 'shareID', AppArmorProfile: 'localhostProfile', AzureDiskVolumeSource: 'cachingMode fsType readOnly kind', AzureFilePersistentVolumeSource: 'secretNamespace',
  CSIDriverSpec: 'attachRequired podInfoOnMount storageCapacity fsGroupPolicy requiresRepublish seLinuxMount nodeAllocatableUpdatePeriodSeconds serviceAccountTokenInSecrets',
  CSIVolumeSource: 'readOnly fsType', CertificateSigningRequestSpec: 'expirationSeconds', ClientIPConfig: 'timeoutSeconds', ClusterTrustBundleProjection: 'name signerName optional',
  ConfigMap: 'immutable', ConfigMapEnvSource: 'optional', ConfigMapKeySelector: 'optional', ConfigMapProjection: 'optional', ConfigMapVolumeSource: 'defaultMode optional',
  Container: 'restartPolicy', ContainerStatus: 'started stopSignal',
  CronJobSpec: 'timeZone startingDeadlineSeconds suspend successfulJobsHistoryLimit failedJobsHistoryLimit', CustomResourceDefinitionVersion: 'deprecationWarning',
  CustomResourceSubresourceScale: 'labelSelectorPath', DaemonSetSpec: 'revisionHistoryLimit', DaemonSetStatus: 'collisionCount',
  DeleteOptions: 'gracePeriodSeconds orphanDependents propagationPolicy ignoreStoreReadErrorWithClusterBreakingPotential', DeploymentSpec: 'replicas revisionHistoryLimit progressDeadlineSeconds',
  DeploymentStatus: 'collisionCount terminatingReplicas', Device: 'nodeName allNodes bindsToNode allowMultipleAllocations', DeviceAttribute: 'int bool string version',
  DeviceClassSpec: 'extendedResourceName', DeviceConstraint: 'matchAttribute distinctAttribute', DeviceRequest: 'adminAccess', DeviceRequestAllocationResult: 'adminAccess shareID',
  DeviceTaintSelector: 'driver pool device', DeviceToleration: 'tolerationSeconds', DownwardAPIVolumeFile: 'mode', DownwardAPIVolumeSource: 'defaultMode', Endpoint: 'hostname nodeName zone',
  EndpointAddress: 'nodeName', EndpointConditions: 'ready serving terminating', EndpointPort: 'name protocol port appProtocol', EphemeralContainerCommon: 'restartPolicy',
  ExactDeviceRequest: 'adminAccess', ExemptPriorityLevelConfiguration: 'nominalConcurrencyShares lendablePercent', FCVolumeSource: 'lun', FileKeySelector: 'optional', GRPCAction: 'service',
  GlusterfsPersistentVolumeSource: 'endpointsNamespace', HPAScalingRules: 'stabilizationWindowSeconds selectPolicy', HTTPIngressPath: 'pathType',
  HorizontalPodAutoscalerSpec: 'minReplicas targetCPUUtilizationPercentage', HorizontalPodAutoscalerStatus: 'observedGeneration currentCPUUtilizationPercentage', HostPathVolumeSource: 'type',
  ISCSIPersistentVolumeSource: 'initiatorName', ISCSIVolumeSource: 'initiatorName', IngressClassParametersReference: 'aPIGroup scope namespace', IngressPortStatus: 'error',
  IngressSpec: 'ingressClassName', JSONSchemaProps: 'maximum minimum maxLength minLength maxItems minItems multipleOf maxProperties minProperties xKubernetesPreserveUnknownFields xKubernetesListType xKubernetesMapType',
  JobSpec: 'parallelism completions activeDeadlineSeconds backoffLimit backoffLimitPerIndex maxFailedIndexes manualSelector ttlSecondsAfterFinished completionMode suspend podReplacementPolicy managedBy',
  JobStatus: 'terminating ready failedIndexes', KeyToPath: 'mode', LeaseSpec: 'holderIdentity leaseDurationSeconds leaseTransitions strategy preferredHolder', Lifecycle: 'stopSignal',
  LimitedPriorityLevelConfiguration: 'nominalConcurrencyShares lendablePercent borrowingLimitPercent', ListMeta: 'remainingItemCount',
  ListOptions: 'timeoutSeconds sendInitialEvents', LoadBalancerIngress: 'ipMode', LocalVolumeSource: 'fsType', MatchResources: 'matchPolicy', MetricTarget: 'averageUtilization',
  MetricValueStatus: 'averageUtilization', MutatingAdmissionPolicySpec: 'failurePolicy', MutatingWebhook: 'failurePolicy matchPolicy sideEffects timeoutSeconds reinvocationPolicy',
  NetworkPolicyPort: 'protocol endPort', NodeFeatures: 'supplementalGroupsPolicy', NodeRuntimeHandlerFeatures: 'recursiveReadOnlyMounts userNamespaces', NodeSwapStatus: 'capacity',
  ObjectMeta: 'deletionGracePeriodSeconds', OwnerReference: 'controller blockOwnerDeletion', ParamRef: 'parameterNotFoundAction', PatchOptions: 'force',
  PersistentVolumeClaimSpec: 'storageClassName volumeMode volumeAttributesClassName', PersistentVolumeClaimStatus: 'currentVolumeAttributesClassName',
  PersistentVolumeSpec: 'volumeMode volumeAttributesClassName', PodCertificateProjection: 'maxExpirationSeconds', PodDNSConfigOption: 'value', PodDisruptionBudgetSpec: 'unhealthyPodEvictionPolicy',
  PodFailurePolicyOnExitCodesRequirement: 'containerName', PodLogOptions: 'sinceSeconds tailLines limitBytes stream', PodResourceClaim: 'resourceClaimName resourceClaimTemplateName',
  PodResourceClaimStatus: 'resourceClaimName', PodSecurityContext: 'runAsUser runAsGroup runAsNonRoot fsGroup fsGroupChangePolicy supplementalGroupsPolicy seLinuxChangePolicy',
  PodSpec: 'terminationGracePeriodSeconds activeDeadlineSeconds automountServiceAccountToken shareProcessNamespace priority runtimeClassName enableServiceLinks preemptionPolicy setHostnameAsFQDN hostUsers hostnameOverride',
  PortStatus: 'error', Preconditions: 'uid resourceVersion', PriorityClass: 'preemptionPolicy', Probe: 'terminationGracePeriodSeconds', ProjectedVolumeSource: 'defaultMode',
  ReplicaSetSpec: 'replicas', ReplicaSetStatus: 'terminatingReplicas', ReplicationControllerSpec: 'replicas', ResourceSliceSpec: 'nodeName allNodes perDeviceNodeSelection',
  RollingUpdateStatefulSetStrategy: 'partition', Rule: 'scope', SeccompProfile: 'localhostProfile', Secret: 'immutable', SecretEnvSource: 'optional', SecretKeySelector: 'optional',
  SecretProjection: 'optional', SecretVolumeSource: 'defaultMode optional', SecurityContext: 'privileged runAsUser runAsGroup runAsNonRoot readOnlyRootFilesystem allowPrivilegeEscalation procMount',
  ServiceAccount: 'automountServiceAccountToken', ServiceAccountTokenProjection: 'expirationSeconds', ServicePort: 'appProtocol', ServiceReference: 'path port',
  ServiceSpec: 'ipFamilyPolicy allocateLoadBalancerNodePorts loadBalancerClass internalTrafficPolicy trafficDistribution', StatefulSetSpec: 'replicas revisionHistoryLimit',
  StatefulSetStatus: 'collisionCount', StorageClass: 'reclaimPolicy allowVolumeExpansion volumeBindingMode', SuccessPolicyRule: 'succeededIndexes succeededCount',
  TokenRequest: 'expirationSeconds', TokenRequestSpec: 'expirationSeconds', Toleration: 'tolerationSeconds', TopologySpreadConstraint: 'minDomains nodeAffinityPolicy nodeTaintsPolicy',
  TypedLocalObjectReference: 'apiGroup', TypedObjectReference: 'apiGroup namespace', ValidatingAdmissionPolicySpec: 'failurePolicy',
  ValidatingWebhook: 'failurePolicy matchPolicy sideEffects timeoutSeconds', Validation: 'reason', ValidationRule: 'reason optionalOldSelf', VolumeAttachmentSource: 'persistentVolumeName',
  VolumeError: 'errorCode', VolumeMount: 'mountPropagation recursiveReadOnly', VolumeMountStatus: 'recursiveReadOnly', VolumeNodeResources: 'count', WebhookClientConfig: 'url',
  WindowsSecurityContextOptions: 'gmsaCredentialSpecName gmsaCredentialSpec runAsUserName hostProcess',
};

const none: ReadonlySet<string> = new Set();
/** Fields of a message, as protobuf names them, that are kept although they are zero. */
export function pointersOf(message: string): ReadonlySet<string> {
  const fields = Object.hasOwn(pointers, message) ? pointers[message] : undefined;
  return fields === undefined ? none : new Set(fields.split(' '));
}
