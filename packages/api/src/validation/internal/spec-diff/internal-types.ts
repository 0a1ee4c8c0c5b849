/**
 * The fields of Kubernetes' internal types in the order of their declaration, which differ in print order and layout from the versioned types.
 *
 * `Name` is a string, `Name#` an integer, `Name?` a boolean; `Name*` any value that can be nil (a pointer, list or map without structs);
 * `Name=Type` a struct, `Name=*Type` a pointer to one, `Name=[]Type` a list; `~Type` an embedded struct. `Name/json` names a JSON field that
 * differs from the field by more than the case of letters.
 */
export const internalTypes: Readonly<Record<string, string>> = {
  PodSpec:
    'Volumes=[]Volume InitContainers=[]Container Containers=[]Container EphemeralContainers=[]EphemeralContainer RestartPolicy TerminationGracePeriodSeconds* ActiveDeadlineSeconds* DNSPolicy NodeSelector* ServiceAccountName AutomountServiceAccountToken* NodeName SecurityContext=*PodSecurityContext ImagePullSecrets=[]LocalObjectReference Hostname Subdomain SetHostnameAsFQDN* Affinity=*Affinity SchedulerName Tolerations=[]Toleration HostAliases=[]HostAlias PriorityClassName Priority* PreemptionPolicy* DNSConfig=*PodDNSConfig ReadinessGates=[]PodReadinessGate RuntimeClassName* Overhead* EnableServiceLinks* TopologySpreadConstraints=[]TopologySpreadConstraint OS=*PodOS SchedulingGates=[]PodOS ResourceClaims=[]PodResourceClaim Resources=*ResourceRequirements HostnameOverride* SchedulingGroup=*PodSchedulingGroup',
  PodSecurityContext:
    'HostNetwork? HostPID? HostIPC? ShareProcessNamespace* HostUsers* SELinuxOptions=*SELinuxOptions WindowsOptions=*WindowsSecurityContextOptions RunAsUser* RunAsGroup* RunAsNonRoot* SupplementalGroups* SupplementalGroupsPolicy* FSGroup* FSGroupChangePolicy* Sysctls=[]NameValue SeccompProfile=*SeccompProfile AppArmorProfile=*SeccompProfile SELinuxChangePolicy*',
  LocalObjectReference: 'Name',
  NameValue: 'Name Value',
  PodOS: 'Name',
  PodResourceClaim: 'Name ResourceClaimName* ResourceClaimTemplateName*',
  PodSchedulingGroup: 'PodGroupName*',
  PodReadinessGate: 'ConditionType',
  HostAlias: 'IP Hostnames*',
  PodDNSConfig: 'Nameservers* Searches* Options=[]PodDNSConfigOption',
  PodDNSConfigOption: 'Name Value*',
  Toleration: 'Key Operator Value Effect TolerationSeconds*',
  TopologySpreadConstraint:
    'MaxSkew# TopologyKey WhenUnsatisfiable LabelSelector* MinDomains* NodeAffinityPolicy* NodeTaintsPolicy* MatchLabelKeys*',
  Affinity: 'NodeAffinity=*NodeAffinity PodAffinity=*PodAffinity PodAntiAffinity=*PodAffinity',
  NodeAffinity:
    'RequiredDuringSchedulingIgnoredDuringExecution=*NodeSelector PreferredDuringSchedulingIgnoredDuringExecution=[]PreferredSchedulingTerm',
  NodeSelector: 'NodeSelectorTerms=[]NodeSelectorTerm',
  NodeSelectorTerm: 'MatchExpressions=[]NodeSelectorRequirement MatchFields=[]NodeSelectorRequirement',
  NodeSelectorRequirement: 'Key Operator Values*',
  PreferredSchedulingTerm: 'Weight# Preference=NodeSelectorTerm',
  PodAffinity:
    'RequiredDuringSchedulingIgnoredDuringExecution=[]PodAffinityTerm PreferredDuringSchedulingIgnoredDuringExecution=[]WeightedPodAffinityTerm',
  PodAffinityTerm: 'LabelSelector* Namespaces* TopologyKey NamespaceSelector* MatchLabelKeys* MismatchLabelKeys*',
  WeightedPodAffinityTerm: 'Weight# PodAffinityTerm=PodAffinityTerm',
  Container:
    'Name Image Command* Args* WorkingDir Ports=[]ContainerPort EnvFrom=[]EnvFromSource Env=[]EnvVar Resources=ResourceRequirements ResizePolicy=[]ContainerResizePolicy RestartPolicy* RestartPolicyRules=[]ContainerRestartRule VolumeMounts=[]VolumeMount VolumeDevices=[]VolumeDevice LivenessProbe=*Probe ReadinessProbe=*Probe StartupProbe=*Probe Lifecycle=*Lifecycle TerminationMessagePath TerminationMessagePolicy ImagePullPolicy SecurityContext=*SecurityContext Stdin? StdinOnce? TTY?',
  EphemeralContainer: '~Container TargetContainerName',
  ContainerPort: 'Name HostPort# ContainerPort# Protocol HostIP',
  ContainerResizePolicy: 'ResourceName RestartPolicy',
  ContainerRestartRule: 'Action ExitCodes=*ContainerRestartRuleOnExitCodes',
  ContainerRestartRuleOnExitCodes: 'Operator Values*',
  EnvFromSource: 'Prefix ConfigMapRef=*OptionalReference SecretRef=*OptionalReference',
  OptionalReference: 'Name Optional*',
  EnvVar: 'Name Value ValueFrom=*EnvVarSource',
  EnvVarSource:
    'FieldRef=*ObjectFieldSelector ResourceFieldRef=*ResourceFieldSelector ConfigMapKeyRef=*KeySelector SecretKeyRef=*KeySelector FileKeyRef=*FileKeySelector',
  ObjectFieldSelector: 'APIVersion FieldPath',
  ResourceFieldSelector: 'ContainerName Resource Divisor',
  KeySelector: 'Name Key Optional*',
  FileKeySelector: 'VolumeName Path Key Optional*',
  ResourceRequirements: 'Limits* Requests* Claims=[]ResourceClaim',
  ResourceClaim: 'Name Request',
  VolumeMount: 'Name ReadOnly? RecursiveReadOnly* MountPath SubPath MountPropagation* SubPathExpr',
  VolumeDevice: 'Name DevicePath',
  Probe:
    '~ProbeHandler InitialDelaySeconds# TimeoutSeconds# PeriodSeconds# SuccessThreshold# FailureThreshold# TerminationGracePeriodSeconds*',
  ProbeHandler: 'Exec=*ExecAction HTTPGet=*HTTPGetAction TCPSocket=*TCPSocketAction GRPC=*GRPCAction',
  ExecAction: 'Command*',
  HTTPGetAction: 'Path Port Host Scheme HTTPHeaders=[]NameValue',
  TCPSocketAction: 'Port Host',
  GRPCAction: 'Port# Service*',
  Lifecycle: 'PostStart=*LifecycleHandler PreStop=*LifecycleHandler StopSignal*',
  LifecycleHandler: 'Exec=*ExecAction HTTPGet=*HTTPGetAction TCPSocket=*TCPSocketAction Sleep=*SleepAction',
  SleepAction: 'Seconds#',
  SecurityContext:
    'Capabilities=*Capabilities Privileged* SELinuxOptions=*SELinuxOptions WindowsOptions=*WindowsSecurityContextOptions RunAsUser* RunAsGroup* RunAsNonRoot* ReadOnlyRootFilesystem* AllowPrivilegeEscalation* ProcMount* SeccompProfile=*SeccompProfile AppArmorProfile=*SeccompProfile',
  Capabilities: 'Add* Drop*',
  SELinuxOptions: 'User Role Type Level',
  SeccompProfile: 'Type LocalhostProfile*',
  WindowsSecurityContextOptions: 'GMSACredentialSpecName* GMSACredentialSpec* RunAsUserName* HostProcess*',
  Volume:
    'Name HostPath=*HostPath EmptyDir=*EmptyDir GCEPersistentDisk=*GCEPersistentDisk AWSElasticBlockStore=*AWSElasticBlockStore GitRepo=*GitRepo Secret=*SecretVolume NFS=*NFS ISCSI=*ISCSI Glusterfs=*Glusterfs PersistentVolumeClaim=*PersistentVolumeClaim RBD=*RBD Quobyte=*Quobyte FlexVolume=*FlexVolume Cinder=*Cinder CephFS=*CephFS Flocker=*Flocker DownwardAPI=*DownwardAPI FC=*FC AzureFile=*AzureFile ConfigMap=*ConfigMapVolume VsphereVolume=*VsphereVolume AzureDisk=*AzureDisk PhotonPersistentDisk=*PhotonPersistentDisk Projected=*Projected PortworxVolume=*PortworxVolume ScaleIO=*ScaleIO StorageOS=*StorageOS CSI=*CSI Ephemeral=*Ephemeral Image=*Image',
  HostPath: 'Path Type*',
  EmptyDir: 'Medium SizeLimit*',
  GCEPersistentDisk: 'PDName FSType Partition# ReadOnly?',
  AWSElasticBlockStore: 'VolumeID FSType Partition# ReadOnly?',
  GitRepo: 'Repository Revision Directory',
  SecretVolume: 'SecretName Items=[]KeyToPath DefaultMode* Optional*',
  NFS: 'Server Path ReadOnly?',
  ISCSI:
    'TargetPortal IQN Lun# ISCSIInterface FSType ReadOnly? Portals* DiscoveryCHAPAuth?/chapAuthDiscovery SessionCHAPAuth?/chapAuthSession SecretRef=*LocalObjectReference InitiatorName*',
  Glusterfs: 'EndpointsName/endpoints Path ReadOnly?',
  PersistentVolumeClaim: 'ClaimName ReadOnly?',
  RBD: 'CephMonitors*/monitors RBDImage/image FSType RBDPool/pool RadosUser/user Keyring SecretRef=*LocalObjectReference ReadOnly?',
  Quobyte: 'Registry Volume ReadOnly? User Group Tenant',
  FlexVolume: 'Driver FSType SecretRef=*LocalObjectReference ReadOnly? Options*',
  Cinder: 'VolumeID FSType ReadOnly? SecretRef=*LocalObjectReference',
  CephFS: 'Monitors* Path User SecretFile SecretRef=*LocalObjectReference ReadOnly?',
  Flocker: 'DatasetName DatasetUUID',
  DownwardAPI: 'Items=[]DownwardAPIVolumeFile DefaultMode*',
  DownwardAPIVolumeFile: 'Path FieldRef=*ObjectFieldSelector ResourceFieldRef=*ResourceFieldSelector Mode*',
  KeyToPath: 'Key Path Mode*',
  FC: 'TargetWWNs* Lun* FSType ReadOnly? WWIDs*',
  AzureFile: 'SecretName ShareName ReadOnly?',
  ConfigMapVolume: 'Name Items=[]KeyToPath DefaultMode* Optional*',
  VsphereVolume: 'VolumePath FSType StoragePolicyName StoragePolicyID',
  AzureDisk: 'DiskName DataDiskURI/diskURI CachingMode* FSType* ReadOnly* Kind*',
  PhotonPersistentDisk: 'PdID FSType',
  Projected: 'Sources=[]VolumeProjection DefaultMode*',
  VolumeProjection:
    'Secret=*ItemsProjection DownwardAPI=*DownwardAPIProjection ConfigMap=*ItemsProjection ServiceAccountToken=*ServiceAccountTokenProjection ClusterTrustBundle=*ClusterTrustBundleProjection PodCertificate=*PodCertificateProjection',
  ItemsProjection: 'Name Items=[]KeyToPath Optional*',
  DownwardAPIProjection: 'Items=[]DownwardAPIVolumeFile',
  ServiceAccountTokenProjection: 'Audience ExpirationSeconds# Path',
  ClusterTrustBundleProjection: 'Name* SignerName* LabelSelector* Optional* Path',
  PodCertificateProjection: 'SignerName KeyType MaxExpirationSeconds* CredentialBundlePath KeyPath CertificateChainPath UserAnnotations*',
  PortworxVolume: 'VolumeID FSType ReadOnly?',
  ScaleIO:
    'Gateway System SecretRef=*LocalObjectReference SSLEnabled? ProtectionDomain StoragePool StorageMode VolumeName FSType ReadOnly?',
  StorageOS: 'VolumeName VolumeNamespace FSType ReadOnly? SecretRef=*LocalObjectReference',
  CSI: 'Driver ReadOnly* FSType* VolumeAttributes* NodePublishSecretRef=*LocalObjectReference',
  Ephemeral: 'VolumeClaimTemplate=*PersistentVolumeClaimTemplate',
  PersistentVolumeClaimTemplate: 'Spec=PersistentVolumeClaimSpec',
  Image: 'Reference PullPolicy',
  PersistentVolumeClaimSpec:
    'AccessModes* Selector* Resources=VolumeResourceRequirements VolumeName StorageClassName* VolumeMode* DataSource=*TypedLocalObjectReference DataSourceRef=*TypedObjectReference VolumeAttributesClassName*',
  VolumeResourceRequirements: 'Limits* Requests*',
  TypedLocalObjectReference: 'APIGroup* Kind Name',
  TypedObjectReference: 'APIGroup* Kind Name Namespace*',
  PersistentVolumeSource:
    'GCEPersistentDisk=*GCEPersistentDisk AWSElasticBlockStore=*AWSElasticBlockStore HostPath=*HostPath Glusterfs=*GlusterfsPersistent NFS=*NFS RBD=*RBDPersistent Quobyte=*Quobyte ISCSI=*ISCSIPersistent FlexVolume=*FlexPersistent Cinder=*CinderPersistent CephFS=*CephFSPersistent FC=*FC Flocker=*Flocker AzureFile=*AzureFilePersistent VsphereVolume=*VsphereVolume AzureDisk=*AzureDisk PhotonPersistentDisk=*PhotonPersistentDisk PortworxVolume=*PortworxVolume ScaleIO=*ScaleIOPersistent Local=*Local StorageOS=*StorageOSPersistent CSI=*CSIPersistent',
  SecretReference: 'Name Namespace',
  GlusterfsPersistent: 'EndpointsName/endpoints Path ReadOnly? EndpointsNamespace*',
  RBDPersistent: 'CephMonitors*/monitors RBDImage/image FSType RBDPool/pool RadosUser/user Keyring SecretRef=*SecretReference ReadOnly?',
  ISCSIPersistent:
    'TargetPortal IQN Lun# ISCSIInterface FSType ReadOnly? Portals* DiscoveryCHAPAuth?/chapAuthDiscovery SessionCHAPAuth?/chapAuthSession SecretRef=*SecretReference InitiatorName*',
  FlexPersistent: 'Driver FSType SecretRef=*SecretReference ReadOnly? Options*',
  CinderPersistent: 'VolumeID FSType ReadOnly? SecretRef=*SecretReference',
  CephFSPersistent: 'Monitors* Path User SecretFile SecretRef=*SecretReference ReadOnly?',
  AzureFilePersistent: 'SecretName ShareName ReadOnly? SecretNamespace*',
  ScaleIOPersistent:
    'Gateway System SecretRef=*SecretReference SSLEnabled? ProtectionDomain StoragePool StorageMode VolumeName FSType ReadOnly?',
  Local: 'Path FSType*',
  StorageOSPersistent: 'VolumeName VolumeNamespace FSType ReadOnly? SecretRef=*ObjectReference',
  ObjectReference: 'Kind Namespace Name UID APIVersion ResourceVersion FieldPath',
  CSIPersistent:
    'Driver VolumeHandle ReadOnly? FSType VolumeAttributes* ControllerPublishSecretRef=*SecretReference NodeStageSecretRef=*SecretReference NodePublishSecretRef=*SecretReference ControllerExpandSecretRef=*SecretReference NodeExpandSecretRef=*SecretReference',
};
