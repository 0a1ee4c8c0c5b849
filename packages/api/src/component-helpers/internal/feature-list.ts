/**
 * The feature gates of Kubernetes 1.36, one per line: the name, and the stages that matter to the versions 1.33 to 1.36. A stage is written as its
 * first letter (`a`lpha, `b`eta, `g`a, `d`eprecated), the version it began with, `+` if the gate is on by default, and `!` if the value is locked.
 */
export const featureList = `
APIResponseCompression b1.16+
APIServerIdentity b1.26+
APIServerTracing b1.27+ g1.34+!
APIServingWithRoutine a1.30
AggregatedDiscoveryRemoveBetaType d1.33+ d1.35+!
AllowDNSOnlyNodeCSR d1.31
AllowInsecureKubeletCertificateSigningRequests d1.31
AllowOverwriteTerminationGracePeriodSeconds d1.32 d1.35!
AllowParsingUserUIDFromCertAuth b1.33+
AllowUnsafeMalformedObjectDeletion a1.32
AnonymousAuthConfigurableEndpoints b1.32+ g1.34+!
AnyVolumeDataSource g1.33+!
AtomicFIFO b1.36+
AuthorizeNodeWithSelectors b1.32+ g1.34+!
AuthorizePodWebsocketUpgradeCreatePermission b1.35+
AuthorizeWithSelectors b1.32+ g1.34+!
BtreeWatchCache g1.33+!
CBORServingAndStorage a1.32
CPUManagerPolicyAlphaOptions a1.23
CPUManagerPolicyBetaOptions b1.23+
CPUManagerPolicyOptions g1.33+!
CRDObservedGenerationTracking b1.35 b1.36+
CRDValidationRatcheting g1.33+!
CRIListStreaming a1.36
CSIServiceAccountTokenSecrets b1.35+ g1.36+!
CSIVolumeHealth a1.21
ChangeContainerStatusOnKubeletRestart g1.0+ d1.35
ClearingNominatedNodeNameAfterBinding a1.34 b1.35+
ClientsAllowCARotation b1.36+
ClientsAllowCBOR a1.32
ClientsAllowTLSCacheGC b1.36+
ClientsPreferCBOR a1.32
CloudControllerManagerWatchBasedRoutesReconciliation a1.35
CloudControllerManagerWebhook a1.27
ClusterTrustBundle b1.33
ClusterTrustBundleProjection b1.33
ComponentFlagz a1.32 b1.36+
ComponentStatusz a1.32 b1.36+
ConcurrentWatchObjectDecode b1.31
ConsistentListFromCache b1.31+ g1.34+!
ConstrainedImpersonation a1.35 b1.36+
ContainerCheckpoint b1.30+
ContainerRestartRules a1.34 b1.35+
ContainerStopSignals a1.33
ContextualLogging b1.30+
ControllerManagerReleaseLeaderElectionLockOnExit a1.36
CoordinatedLeaderElection b1.33
CrossNamespaceVolumeDataSource a1.26
CustomCPUCFSQuotaPeriod a1.12
CustomResourceFieldSelectors g1.32+!
DRAAdminAccess a1.32 b1.34+ g1.36+!
DRAConsumableCapacity a1.34 b1.36+
DRADeviceBindingConditions a1.34 b1.36+
DRADeviceTaintRules a1.35 b1.36
DRADeviceTaints a1.33 b1.36+
DRAExtendedResource a1.34 b1.36+
DRAListTypeAttributes a1.36
DRANodeAllocatableResources a1.36
DRAPartitionableDevices a1.33 b1.36+
DRAPrioritizedList a1.33 b1.34+ g1.36+
DRAResourceClaimDeviceStatus b1.33+
DRAResourceClaimGranularStatusAuthorization b1.36+
DRAResourcePoolStatus a1.36
DRASchedulerFilterTimeout b1.34+
DRAWorkloadResourceClaims a1.36
DeclarativeValidationBeta b1.36+
DeploymentReplicaSetTerminatingReplicas a1.33 b1.35+
DetectCacheInconsistency b1.34+
DisableAllocatorDualWrite b1.33 g1.34+ g1.35+!
DisableNodeKubeProxyVersion d1.33+
DynamicResourceAllocation b1.32 g1.34+ g1.35+!
EnvFiles a1.34 b1.35+
EventedPLEG a1.26
ExecProbeTimeout g1.20+ g1.35+!
ExtendWebSocketsToKubelet b1.36+
ExternalServiceAccountTokenSigner a1.32 b1.34+ g1.36+!
GangScheduling a1.35
GenericWorkload a1.35
GracefulNodeShutdown b1.21+
GracefulNodeShutdownBasedOnPodPriority b1.24+
HPAConfigurableTolerance a1.33 b1.35+
HPAScaleToZero a1.16
HonorPVReclaimPolicy g1.33+!
HostnameOverride a1.34 b1.35+
ImageMaximumGCAge b1.30+ g1.35+!
ImageVolume b1.33 b1.35+ g1.36+!
ImageVolumeWithDigest a1.35
InOrderInformersBatchProcess b1.35+
InPlacePodLevelResourcesVerticalScaling a1.35 b1.36+
InPlacePodVerticalScaling b1.33+ g1.35+!
InPlacePodVerticalScalingAllocatedStatus d1.33
InPlacePodVerticalScalingExclusiveCPUs a1.32
InPlacePodVerticalScalingExclusiveMemory a1.34
InPlacePodVerticalScalingInitContainers b1.36+
JobBackoffLimitPerIndex g1.33+!
JobManagedBy b1.32+ g1.35+!
JobPodReplacementPolicy b1.29+ g1.34+!
JobSuccessPolicy g1.33+!
KMSv1 d1.29
KubeletCgroupDriverFromCRI b1.31+ g1.34+!
KubeletCrashLoopBackOffMax a1.32 b1.35+
KubeletEnsureSecretPulledImages a1.33 b1.35+
KubeletFineGrainedAuthz b1.33+ g1.36+!
KubeletInUserNamespace a1.22
KubeletPSI a1.33 b1.34+ g1.36+!
KubeletPodResourcesDynamicResources a1.27 b1.34+ g1.36+!
KubeletPodResourcesGet a1.27 b1.34+ g1.36+!
KubeletPodResourcesListUseActivePods g1.0 d1.34+
KubeletRegistrationGetOnExistsOnly d1.32
KubeletSeparateDiskGC b1.31+
KubeletServiceAccountTokenForCredentialProviders a1.33 b1.34+
KubeletTracing b1.27+ g1.34+!
ListFromCacheSnapshot a1.33 b1.34+
LocalStorageCapacityIsolationFSQuotaMonitoring b1.31
LogarithmicScaleDown g1.31+!
LoggingAlphaOptions a1.24
LoggingBetaOptions b1.24+
ManifestBasedAdmissionControlConfig a1.36
MatchLabelKeysInPodAffinity g1.33+!
MatchLabelKeysInPodTopologySpread b1.27+
MatchLabelKeysInPodTopologySpreadSelectorMerge b1.34+
MaxUnavailableStatefulSet a1.24 b1.35
MemoryQoS a1.22
MultiCIDRServiceAllocator g1.33+ g1.34+!
MutableCSINodeAllocatableCount a1.33 b1.34 b1.35+ g1.36+!
MutablePVNodeAffinity a1.35
MutablePodResourcesForSuspendedJobs a1.35 b1.36+
MutableSchedulingDirectivesForSuspendedJobs a1.35 b1.36+
MutatingAdmissionPolicy a1.32 b1.34 g1.36+!
NFTablesProxyMode g1.33+!
NativeHistograms a1.36
NodeDeclaredFeatures a1.35 b1.36+
NodeInclusionPolicyInPodTopologySpread g1.33+!
NodeLogQuery b1.30 g1.36+!
NodeSwap b1.30+ g1.34+!
NominatedNodeNameForExpectation a1.34 b1.35+
OpenAPIEnums b1.24+
OpportunisticBatching b1.35+
OrderedNamespaceDeletion b1.33+ g1.34+!
PLEGOnDemandRelist b1.36
PersistentVolumeClaimUnusedSinceTime a1.36
PodAndContainerStatsFromCRI a1.23
PodCertificateRequest a1.34 b1.35
PodDeletionCost b1.22+
PodLevelResourceManagers a1.36
PodLevelResources a1.32 b1.34+
PodLifecycleSleepAction b1.30+ g1.34+!
PodLifecycleSleepActionAllowZero b1.33+ g1.34+!
PodLogsQuerySplitStreams a1.32
PodObservedGenerationTracking a1.33 b1.34+ g1.35+!
PodReadyToStartContainersCondition b1.29+
PodSchedulingReadiness g1.30+!
PodTopologyLabelsAdmission a1.33 b1.35+
PodsAPI a1.36
PortForwardWebsockets b1.31+
PreferSameTrafficDistribution a1.33 b1.34+ g1.35+!
PreventStaticPodAPIReferences b1.34+
ProcMountType b1.33+ g1.36+!
QOSReserved a1.11
RecoverVolumeExpansionFailure b1.32+ g1.34+!
RecursiveReadOnlyMounts g1.33+!
ReduceDefaultCrashLoopBackOffDecay a1.33
RelaxedDNSSearchValidation b1.33+ g1.34+!
RelaxedEnvironmentVariableValidation b1.32+ g1.34+!
RelaxedServiceNameValidation a1.34 b1.36+
ReloadKubeletClientCAFile b1.36+
ReloadKubeletServerCertificateFile b1.31+
RemoteRequestHeaderUID b1.33+
ResilientWatchCacheInitialization b1.31+ g1.34+!
ResourceHealthStatus a1.31 b1.36+
ResourceHealthStatusMessage b1.36+
RestartAllContainersOnContainerExits a1.35 b1.36+
RetryGenerateName g1.32+!
RotateKubeletServerCertificate b1.12+
RuntimeClassInImageCriApi a1.29
SELinuxChangePolicy b1.33+ g1.36+!
SELinuxMount b1.33
SELinuxMountReadWriteOncePod b1.28+ g1.36+!
SchedulerAsyncAPICalls b1.34
SchedulerAsyncPreemption b1.33+
SchedulerPopFromBackoffQ b1.33+
SchedulerQueueingHints b1.32+ g1.34+!
SeparateTaintEvictionController b1.29+ g1.34+!
ServiceAccountNodeAudienceRestriction b1.33+
ServiceAccountTokenJTI g1.32+!
ServiceAccountTokenNodeBinding g1.33+!
ServiceAccountTokenNodeBindingValidation g1.32+!
ServiceAccountTokenPodNodeInfo g1.32+!
ShardedListAndWatch a1.36
SidecarContainers g1.33+!
SizeBasedListCostEstimate b1.34+
StaleControllerConsistencyDaemonSet b1.36+
StaleControllerConsistencyJob b1.36+
StaleControllerConsistencyReplicaSet b1.36+
StaleControllerConsistencyStatefulSet b1.36+
StatefulSetSemanticRevisionComparison b1.0+
StorageCapacityScoring a1.33
StorageVersionAPI a1.20
StorageVersionHash b1.15+
StorageVersionMigrator a1.30 b1.35
StreamingCollectionEncodingToJSON b1.33+ g1.34+!
StreamingCollectionEncodingToProtobuf b1.33+ g1.34+!
StrictIPCIDRValidation a1.33 b1.36+
StructuredAuthenticationConfiguration b1.30+ g1.34+!
StructuredAuthenticationConfigurationEgressSelector b1.34+
StructuredAuthenticationConfigurationJWKSMetrics b1.35+
SupplementalGroupsPolicy b1.33+ g1.35+!
SystemdWatchdog b1.32+ g1.35+!
TaintTolerationComparisonOperators a1.35
TokenRequestServiceAccountUIDValidation b1.34+
TopologyAwareWorkloadScheduling a1.36
TopologyManagerPolicyAlphaOptions a1.26
TopologyManagerPolicyBetaOptions b1.28+
TopologyManagerPolicyOptions g1.32+
TranslateStreamCloseWebsocketRequests b1.30+
UnauthenticatedHTTP2DOSMitigation b1.29+
UnknownVersionInteroperabilityProxy a1.28 b1.36+
UnlockWhileProcessingFIFO b1.36+
UserNamespacesHostNetworkSupport a1.35
UserNamespacesSupport b1.33+ g1.36+!
VolumeAttributesClass b1.31 g1.34+ g1.36+!
VolumeLimitScaling a1.35
WatchCacheInitializationPostStartHook b1.31 b1.36+
WatchList b1.33 b1.34+
WatchListClient b1.30 b1.35+
WinDSR b1.33+ g1.34+!
WinOverlay b1.20+ g1.34+!
WindowsCPUAndMemoryAffinity a1.32
WindowsGracefulNodeShutdown a1.32 b1.34+
WindowsHostNetwork d1.33
WorkloadAwarePreemption a1.36
WorkloadWithJob a1.36
`;
