import type { ValidationRule } from '../rule-samples.ts';

/** Rules of pods and of their volumes. */
export const podRules: readonly ValidationRule[] = [
  {
    rule: 'core.validateOverhead: a bad resource name and a negative quantity',
    kind: 'Pod',
    fields: { spec: { overhead: { 'a/b/c': '1', cpu: '-1' } } },
    errors: [
      'spec.overhead.limits[a/b/c]: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters…',
      'spec.overhead.limits[a/b/c]: Invalid value: "a/b/c": doesn\'t follow extended resource name standard',
      'spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ],
  },
  {
    rule: 'core.validateVolumeSource: two sources',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', hostPath: { path: '/a' }, nfs: { server: 's', path: '/b' } }] } },
    errors: ['spec.volumes[0].nfs: Forbidden: may not specify more than 1 volume type'],
  },
  {
    rule: 'core.validateHostPathVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', hostPath: { path: '/a/../b', type: 'Other' } }] } },
    errors: [
      'spec.volumes[0].hostPath.path: Invalid value: "/a/../b": must not contain \'..\'',
      'spec.volumes[0].hostPath.type: Unsupported value: "Other": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File"…',
    ],
  },
  {
    rule: 'core.validateGitRepoVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', gitRepo: { repository: '', directory: '/a' } }] } },
    errors: [
      'spec.volumes[0].gitRepo.repository: Required value',
      'spec.volumes[0].gitRepo.directory: Invalid value: "/a": must be a relative path',
    ],
  },
  {
    rule: 'core.validateGCEPersistentDiskVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', gcePersistentDisk: { pdName: '', partition: 256 } }] } },
    errors: [
      'spec.volumes[0].persistentDisk.pdName: Required value',
      'spec.volumes[0].persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive',
    ],
  },
  {
    rule: 'core.validateAWSElasticBlockStoreVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', awsElasticBlockStore: { volumeID: '', partition: -1 } }] } },
    errors: [
      'spec.volumes[0].awsElasticBlockStore.volumeID: Required value',
      'spec.volumes[0].awsElasticBlockStore.partition: Invalid value: -1: must be between 1 and 255, inclusive',
    ],
  },
  {
    rule: 'core.validateSecretVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', secret: { secretName: '', defaultMode: 512, items: [{ key: '', path: '' }] } }] } },
    errors: [
      'spec.volumes[0].secret.secretName: Required value',
      'spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive',
      'spec.volumes[0].secret.items[0].key: Required value',
      'spec.volumes[0].secret.items[0].path: Required value',
    ],
  },
  {
    rule: 'core.validateNFSVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', nfs: { server: '', path: 'a' } }] } },
    errors: ['spec.volumes[0].nfs.server: Required value', 'spec.volumes[0].nfs.path: Invalid value: "a": must be an absolute path'],
  },
  {
    rule: 'core.validateISCSIVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', iscsi: { targetPortal: '', iqn: 'x', lun: 256, chapAuthDiscovery: true } }] } },
    errors: [
      'spec.volumes[0].iscsi.targetPortal: Required value',
      'spec.volumes[0].iscsi.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa',
      'spec.volumes[0].iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive',
      'spec.volumes[0].iscsi.secretRef: Required value',
    ],
  },
  {
    rule: 'core.validateGlusterfsVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', glusterfs: { endpoints: '', path: '' } }] } },
    errors: ['spec.volumes[0].glusterfs.endpoints: Required value', 'spec.volumes[0].glusterfs.path: Required value'],
  },
  {
    rule: 'core.validateFlockerVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', flocker: {} }] } },
    errors: ['spec.volumes[0].flocker: Required value: one of datasetName and datasetUUID is required'],
  },
  {
    rule: 'core.validateRBDVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', rbd: { monitors: [], image: '' } }] } },
    errors: ['spec.volumes[0].rbd.monitors: Required value', 'spec.volumes[0].rbd.image: Required value'],
  },
  {
    rule: 'core.validateCinderVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', cinder: { volumeID: '', secretRef: { name: '' } } }] } },
    errors: ['spec.volumes[0].cinder.volumeID: Required value', 'spec.volumes[0].cinder.secretRef.name: Required value'],
  },
  {
    rule: 'core.validateCephFSVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', cephfs: { monitors: [] } }] } },
    errors: ['spec.volumes[0].cephfs.monitors: Required value'],
  },
  {
    rule: 'core.validateQuobyteVolumeSource',
    kind: 'Pod',
    fields: {
      spec: {
        volumes: [
          {
            name: 'v',
            quobyte: { registry: 'a', volume: '', tenant: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' },
          },
        ],
      },
    },
    errors: [
      'spec.volumes[0].quobyte.tenant: Required value: must be a UUID and may not exceed a length of 64 characters',
      'spec.volumes[0].quobyte.volume: Required value',
    ],
  },
  {
    rule: 'core.validateFCVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', fc: { targetWWNs: ['a'], wwids: ['b'], lun: 256 } }] } },
    errors: [
      'spec.volumes[0].fc.targetWWNs: Invalid value: ["a"]: targetWWNs and wwids can not be specified simultaneously',
      'spec.volumes[0].fc.lun: Invalid value: 256: must be between 0 and 255, inclusive',
    ],
  },
  {
    rule: 'core.validateAzureFile',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', azureFile: { secretName: '', shareName: '' } }] } },
    errors: ['spec.volumes[0].azureFile.secretName: Required value', 'spec.volumes[0].azureFile.shareName: Required value'],
  },
  {
    rule: 'core.validateAzureDisk',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', azureDisk: { diskName: 'd', diskURI: 'x', cachingMode: 'Other', kind: 'Managed' } }] } },
    errors: [
      'spec.volumes[0].azureDisk.cachingMode: Unsupported value: "Other": supported values: "None", "ReadOnly", "ReadWrite"',
      'spec.volumes[0].azureDisk.diskURI: Unsupported value: "x": supported values: "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.…',
    ],
  },
  {
    rule: 'core.validateFlexVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', flexVolume: { driver: '', options: { 'kubernetes.io/a': 'b' } } }] } },
    errors: [
      'spec.volumes[0].flexVolume.driver: Required value',
      'spec.volumes[0].flexVolume.options[kubernetes.io/a]: Invalid value: "kubernetes.io/a": kubernetes.io and k8s.io namespaces are reserved',
    ],
  },
  {
    rule: 'core.validatePortworxVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', portworxVolume: { volumeID: '' } }] } },
    errors: ['spec.volumes[0].portworxVolume.volumeID: Required value'],
  },
  {
    rule: 'core.validatePhotonPersistentDiskVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', photonPersistentDisk: { pdID: '' } }] } },
    errors: ['spec.volumes[0].photonPersistentDisk.pdID: Required value'],
  },
  {
    rule: 'core.validateVsphereVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', vsphereVolume: { volumePath: '' } }] } },
    errors: ['spec.volumes[0].vsphereVolume.volumePath: Required value'],
  },
  {
    rule: 'core.validateScaleIOVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', scaleIO: { gateway: '', system: '', volumeName: '' } }] } },
    errors: [
      'spec.volumes[0].scaleIO.gateway: Required value',
      'spec.volumes[0].scaleIO.system: Required value',
      'spec.volumes[0].scaleIO.volumeName: Required value',
    ],
  },
  {
    rule: 'core.validateStorageOSVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', storageos: { volumeName: '', secretRef: { name: '' } } }] } },
    errors: ['spec.volumes[0].storageos.volumeName: Required value', 'spec.volumes[0].storageos.secretRef.name: Required value'],
  },
  {
    rule: 'core.validateCSIVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', csi: { driver: 'Bad!', nodePublishSecretRef: { name: '' } } }] } },
    errors: [
      "spec.volumes[0].csi.driver: Invalid value: \"Bad!\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and…",
      'spec.volumes[0].csi.nodePublishSecretRef.name: Required value',
    ],
  },
  {
    rule: 'core.validateImageVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', image: { reference: '', pullPolicy: 'Other' } }] } },
    errors: [
      'spec.volumes[0].image.reference: Required value',
      'spec.volumes[0].image.pullPolicy: Unsupported value: "Other": supported values: "Always", "IfNotPresent", "Never"',
    ],
  },
  {
    rule: 'core.validateEmptyDirVolumeSource',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', emptyDir: { sizeLimit: '-1' } }] } },
    errors: ['spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity'],
  },
  {
    rule: 'core.validateDownwardAPIVolumeFile',
    kind: 'Pod',
    fields: {
      spec: {
        volumes: [
          {
            name: 'v',
            downwardAPI: { items: [{ path: '../a', fieldRef: { apiVersion: 'v2', fieldPath: 'spec.other' }, mode: 512 }, { path: 'b' }] },
          },
        ],
      },
    },
    errors: [
      'spec.volumes[0].downwardAPI.path: Invalid value: "../a": must not contain \'..\'',
      'spec.volumes[0].downwardAPI.fieldRef.fieldPath: Invalid value: "spec.other": error converting fieldPath: unsupported pod version: v2',
      'spec.volumes[0].downwardAPI.mode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive',
      'spec.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required',
    ],
  },
  {
    rule: 'core.validateProjectionSources: a token',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', projected: { sources: [{ serviceAccountToken: { path: '', expirationSeconds: 1 } }] } }] } },
    errors: [
      'spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes',
      'spec.volumes[0].projected.path: Required value',
      'spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set',
    ],
  },
  {
    rule: 'core.validateProjectionSources: two kinds',
    kind: 'Pod',
    fields: { spec: { volumes: [{ name: 'v', projected: { sources: [{ secret: { name: 'a' }, configMap: { name: 'b' } }] } }] } },
    errors: ['spec.volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source'],
  },
  {
    rule: 'core.validateProjectionSources: a trust bundle',
    kind: 'Pod',
    fields: {
      spec: {
        volumes: [
          {
            name: 'v',
            projected: {
              sources: [{ clusterTrustBundle: { signerName: 'x', name: 'n', path: 'p' } }, { clusterTrustBundle: { path: 'p' } }],
            },
          },
        ],
      },
    },
    errors: [
      'spec.volumes[0].projected.sources[0].clusterTrustBundlePEM: Invalid value: {"signerName":"x","name":"n","path":"p"}: only one of name and signerName m…',
      'spec.volumes[0].projected.sources[1].clusterTrustBundlePEM: Required value: either name or signerName must be specified',
      'spec.volumes[0].projected: Invalid value: "p": conflicting duplicate paths',
    ],
  },
  {
    rule: 'core.validateProjectionSources: a pod certificate',
    kind: 'Pod',
    fields: {
      spec: {
        volumes: [
          { name: 'v', projected: { sources: [{ podCertificate: { signerName: 'x', keyType: 'Other', maxExpirationSeconds: 1 } }] } },
        ],
      },
    },
    errors: [
      'spec.volumes[0].projected.sources[0].podCertificate.signerName: Invalid value: "x": must be a fully qualified domain and path of the form \'example.com…',
      'spec.volumes[0].projected.sources[0].podCertificate.keyType: Unsupported value: "Other": supported values: "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP3…',
      'spec.volumes[0].projected.sources[0].podCertificate.maxExpirationSeconds: Invalid value: 1: if provided, maxExpirationSeconds must be >= 3600',
      'spec.volumes[0].projected.sources[0].podCertificate: Required value: specify at least one of credentialBundlePath, keyPath, and certificateChainPath',
    ],
  },
  {
    rule: 'core.validateWindowsSecurityContextOptions',
    kind: 'Pod',
    fields: {
      spec: { securityContext: { windowsOptions: { gmsaCredentialSpecName: '', gmsaCredentialSpec: '', runAsUserName: 'a\\b\\c' } } },
    },
    errors: [
      'spec.securityContext.windowsOptions.gmsaCredentialSpecName: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric…',
      'spec.securityContext.windowsOptions.gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec cannot be an empty string',
      'spec.securityContext.windowsOptions.runAsUserName: Invalid value: "a\\\\b\\\\c": runAsUserName cannot contain more than one backslash',
    ],
  },
  {
    rule: 'core.validateWindowsHostProcessPod',
    kind: 'Pod',
    fields: { spec: { securityContext: { windowsOptions: { hostProcess: true } } } },
    errors: ['spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers'],
  },
  {
    rule: 'core.validateObjectFieldSelector: the version',
    kind: 'Pod',
    fields: {
      spec: {
        containers: [
          { name: 'c', image: 'i', env: [{ name: 'E', valueFrom: { fieldRef: { apiVersion: 'v2', fieldPath: 'metadata.name' } } }] },
        ],
      },
    },
    errors: [
      'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2',
    ],
  },
  {
    rule: 'core.validateRestartPolicy',
    kind: 'Pod',
    fields: { spec: { restartPolicy: 'Other' } },
    errors: ['spec.restartPolicy: Unsupported value: "Other": supported values: "Always", "OnFailure", "Never"'],
  },
  {
    rule: 'core.validateDNSPolicy',
    kind: 'Pod',
    fields: { spec: { dnsPolicy: 'Other' } },
    errors: ['spec.dnsPolicy: Unsupported value: "Other": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"'],
  },
  {
    rule: 'core.validatePodDNSConfig: an address with leading zeros',
    kind: 'Pod',
    fields: { spec: { dnsConfig: { nameservers: ['010.0.0.1'] } } },
    errors: ['spec.dnsConfig.nameservers[0]: Invalid value: "010.0.0.1": must not have leading 0s'],
  },
  {
    rule: 'core.ValidateHostAliases: an address with leading zeros',
    kind: 'Pod',
    fields: { spec: { hostAliases: [{ ip: '010.0.0.1', hostnames: ['a'] }] } },
    errors: ['spec.hostAliases[0].ip: Invalid value: "010.0.0.1": must not have leading 0s'],
  },
  {
    rule: 'core.validateInitContainers: a resize policy that restarts the container',
    kind: 'Pod',
    fields: {
      spec: {
        initContainers: [
          {
            name: 'd',
            image: 'i',
            resizePolicy: [
              { resourceName: 'cpu', restartPolicy: 'NotRequired' },
              { resourceName: 'memory', restartPolicy: 'RestartContainer' },
            ],
          },
        ],
      },
    },
    errors: [
      'spec.initContainers[0].resizePolicy[1].restartPolicy: Invalid value: "RestartContainer": must not be set to \'RestartContainer\' for non-sidecar initContainers',
    ],
  },
  {
    rule: 'core.validateLifecycle: a stop signal without operating system',
    kind: 'Pod',
    fields: { spec: { containers: [{ name: 'c', image: 'i', lifecycle: { stopSignal: 'SIGTERM' } }] } },
    errors: ['spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`'],
  },
  {
    rule: 'core.validateStopSignal: Windows',
    kind: 'Pod',
    fields: { spec: { os: { name: 'windows' }, containers: [{ name: 'c', image: 'i', lifecycle: { stopSignal: 'SIGHUP' } }] } },
    errors: ['spec.containers[0].lifecycle.stopSignal: Unsupported value: "SIGHUP": supported values: "SIGKILL", "SIGTERM"'],
  },
  {
    rule: 'core.validateAppArmorAnnotationsAndFieldsMatchOnCreate',
    kind: 'Pod',
    fields: {
      metadata: {
        annotations: {
          'container.apparmor.security.beta.kubernetes.io/c': 'unconfined',
          'container.apparmor.security.beta.kubernetes.io/d': 'localhost/a',
        },
      },
      spec: {
        securityContext: { appArmorProfile: { type: 'RuntimeDefault' } },
        containers: [
          { name: 'c', image: 'i' },
          { name: 'd', image: 'i', securityContext: { appArmorProfile: { type: 'Localhost', localhostProfile: 'b' } } },
        ],
      },
    },
    errors: [
      'spec.containers[0].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match',
      'spec.containers[1].securityContext.appArmorProfile.localhostProfile: Forbidden: apparmor profile in annotation and field must match',
    ],
  },
  {
    rule: 'core.validateSeccompAnnotationsAndFieldsMatch',
    kind: 'Pod',
    fields: {
      metadata: { annotations: { 'seccomp.security.alpha.kubernetes.io/pod': 'unconfined' } },
      spec: { securityContext: { seccompProfile: { type: 'RuntimeDefault' } } },
    },
    errors: ['spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match'],
  },
  {
    rule: 'core.ValidatePodSecurityContext: seLinuxChangePolicy without the feature gate SELinuxMount',
    kind: 'Pod',
    fields: { spec: { securityContext: { seLinuxChangePolicy: 'MountOption' } } },
    errors: ['spec.securityContext.seLinuxChangePolicy: Unsupported value: "MountOption": supported values: "Recursive"'],
  },
  {
    rule: 'core.ValidatePodSecurityContext: seLinuxChangePolicy of a template',
    kind: 'CronJob',
    fields: { spec: { jobTemplate: { spec: { template: { spec: { securityContext: { seLinuxChangePolicy: 'Other' } } } } } } },
    errors: [
      'spec.jobTemplate.spec.template.spec.securityContext.seLinuxChangePolicy: Unsupported value: "Other": supported values: "Recursive"',
    ],
  },
  {
    rule: 'pod.useOnlyRecursiveSELinuxChangePolicy: a stored policy stays valid',
    kind: 'Deployment',
    fields: { spec: { template: { spec: { securityContext: { seLinuxChangePolicy: 'MountOption' } } } } },
    old: { spec: { template: { spec: { securityContext: { seLinuxChangePolicy: 'Recursive' } } } } },
    errors: [],
  },
  {
    rule: 'pod.useOnlyRecursiveSELinuxChangePolicy: a stored policy allows both, and no others',
    kind: 'Deployment',
    fields: { spec: { template: { spec: { securityContext: { seLinuxChangePolicy: 'Other' } } } } },
    old: { spec: { template: { spec: { securityContext: { seLinuxChangePolicy: 'MountOption' } } } } },
    errors: [
      'spec.template.spec.securityContext.seLinuxChangePolicy: Unsupported value: "Other": supported values: "MountOption", "Recursive"',
    ],
  },
  {
    rule: 'core.validateContainerRestartPolicy: more than 255 exit codes of a rule',
    kind: 'Pod',
    fields: {
      spec: {
        containers: [
          {
            ...{ name: 'c', image: 'i', terminationMessagePolicy: 'File', imagePullPolicy: 'Always', restartPolicy: 'Never' },
            restartPolicyRules: [
              { action: 'Restart', exitCodes: { operator: 'In', values: Array.from({ length: 256 }, (_, code) => code) } },
            ],
          },
        ],
      },
    },
    errors: ['spec.containers[0].restartPolicyRules[0].exitCodes.values: Too many: 256: must have at most 255 items'],
  },
];
