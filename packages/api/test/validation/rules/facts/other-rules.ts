import type { ValidationRule } from '../rule-samples.ts';

/** Rules of addresses, persistent volumes, certificates and devices. */
export const otherRules: readonly ValidationRule[] = [
  {
    rule: 'core.ValidateService: addresses with leading zeros',
    kind: 'Service',
    fields: { spec: { externalIPs: ['010.0.0.1'], type: 'LoadBalancer', loadBalancerSourceRanges: ['10.0.0.1/8'] } },
    errors: [
      'spec.externalIPs[0]: Invalid value: "010.0.0.1": must not have leading 0s',
      'spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length',
    ],
  },
  {
    rule: 'core.ValidateNode: ranges',
    kind: 'Node',
    fields: { spec: { podCIDRs: ['10.0.0.1/24'] } },
    errors: ['spec.podCIDRs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length'],
  },
  {
    rule: 'core.ValidateEndpoints: an address with leading zeros',
    kind: 'Endpoints',
    fields: { subsets: [{ addresses: [{ ip: '010.0.0.1' }], ports: [{ port: 1 }] }] },
    errors: ['subsets[0].addresses[0].ip: Invalid value: "010.0.0.1": must not have leading 0s'],
  },
  {
    rule: 'networking.ValidateIPBlock: host bits',
    kind: 'NetworkPolicy',
    fields: { spec: { egress: [{ to: [{ ipBlock: { cidr: '10.0.0.1/8' } }] }] } },
    errors: ['spec.egress[0].to[0].ipBlock.cidr: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length'],
  },
  {
    rule: 'networking.ValidateServiceCIDR: notation',
    kind: 'ServiceCIDR',
    fields: { spec: { cidrs: ['2001:0db8::/64'] } },
    errors: ['spec.cidrs[0]: Invalid value: "2001:0db8::/64": must be in canonical form ("2001:db8::/64")'],
  },
  {
    rule: 'core.ValidatePersistentVolumeSpec: no source',
    kind: 'PersistentVolume',
    fields: { spec: { hostPath: undefined } },
    errors: ['spec: Required value: must specify a volume type'],
  },
  {
    rule: 'core.ValidatePersistentVolumeSpec: two sources',
    kind: 'PersistentVolume',
    fields: { spec: { nfs: { server: 's', path: '/a' } } },
    errors: ['spec.nfs: Forbidden: may not specify more than 1 volume type'],
  },
  {
    rule: 'core.ValidatePersistentVolumeSpec: the root directory recycled',
    kind: 'PersistentVolume',
    fields: { spec: { hostPath: { path: '/' }, persistentVolumeReclaimPolicy: 'Recycle' } },
    errors: ["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"],
  },
  {
    rule: 'core.ValidatePersistentVolumeSpec: modes',
    kind: 'PersistentVolume',
    fields: { spec: { accessModes: ['Other'], volumeMode: 'Other', persistentVolumeReclaimPolicy: 'Other' } },
    errors: [
      'spec.accessModes: Unsupported value: "Other": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"',
      'spec.persistentVolumeReclaimPolicy: Unsupported value: "Other": supported values: "Delete", "Recycle", "Retain"',
      'spec.volumeMode: Unsupported value: "Other": supported values: "Block", "Filesystem"',
    ],
  },
  {
    rule: 'core.ValidatePersistentVolumeSpec: a single pod with other modes',
    kind: 'PersistentVolume',
    fields: { spec: { hostPath: undefined, csi: { driver: 'd', volumeHandle: 'h' }, accessModes: ['ReadWriteOncePod', 'ReadWriteOnce'] } },
    errors: ['spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes'],
  },
  {
    rule: 'core.validateCSIPersistentVolumeSource',
    kind: 'PersistentVolume',
    fields: {
      spec: {
        hostPath: undefined,
        csi: { driver: 'Bad!', volumeHandle: '', nodeStageSecretRef: { name: 'a' }, controllerExpandSecretRef: {} },
      },
    },
    errors: [
      "spec.csi.driver: Invalid value: \"Bad!\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start…",
      'spec.csi.volumeHandle: Required value',
      'spec.csi.controllerExpandSecretRef.name: Required value',
      'spec.csi.controllerExpandSecretRef.namespace: Required value',
    ],
  },
  {
    rule: 'core.validateLocalVolumeSource',
    kind: 'PersistentVolume',
    fields: { spec: { hostPath: undefined, local: { path: '../a' } } },
    errors: [
      'spec.local.path: Invalid value: "../a": must not contain \'..\'',
      'spec.nodeAffinity: Required value: Local volume requires node affinity',
    ],
  },
  {
    rule: 'core.validateGlusterfsPersistentVolumeSource',
    kind: 'PersistentVolume',
    fields: { spec: { hostPath: undefined, glusterfs: { endpoints: 'e', path: 'p', endpointsNamespace: '' } } },
    errors: ['spec.glusterfs.endpointsNamespace: Invalid value: "": if the endpointnamespace is set, it must be a valid namespace name'],
  },
  {
    rule: 'core.validateAzureFilePV',
    kind: 'PersistentVolume',
    fields: { spec: { hostPath: undefined, azureFile: { secretName: 'a', shareName: 'b', secretNamespace: '' } } },
    errors: ['spec.azureFile.secretNamespace: Required value'],
  },
  {
    rule: 'core.ValidatePersistentVolumeUpdate: the source',
    kind: 'PersistentVolume',
    fields: { spec: { hostPath: { path: '/other' } } },
    old: {},
    errors: [
      'spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n- hostPath.path: "/data"\n+ hostPath.path: "/other"',
    ],
  },
  {
    rule: 'core.ValidatePersistentVolumeUpdate: the volume mode',
    kind: 'PersistentVolume',
    fields: { spec: { volumeMode: 'Block' } },
    old: {},
    errors: ['volumeMode: Invalid value: "Block": field is immutable'],
  },
  {
    rule: 'core.validatePvNodeAffinity: the affinity',
    kind: 'PersistentVolume',
    fields: { spec: { nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'a', operator: 'Exists' }] }] } } } },
    old: { spec: { nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'b', operator: 'Exists' }] }] } } } },
    errors: [
      'nodeAffinity: Invalid value: {"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]}}: field is immutable',
    ],
  },
  {
    rule: 'storage.validateVolumeAttachmentSource: no source',
    kind: 'VolumeAttachment',
    fields: { spec: { source: { persistentVolumeName: undefined } } },
    errors: ['spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName'],
  },
  {
    rule: 'storage.validateVolumeAttachmentSource: two sources',
    kind: 'VolumeAttachment',
    fields: { spec: { source: { inlineVolumeSpec: {} } } },
    errors: ['spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName'],
  },
  {
    rule: 'storage.validateVolumeAttachmentSource: an inline volume',
    kind: 'VolumeAttachment',
    fields: {
      spec: {
        source: {
          persistentVolumeName: undefined,
          inlineVolumeSpec: {
            claimRef: { name: 'a' },
            capacity: { storage: '1' },
            nodeAffinity: {},
            storageClassName: 's',
            volumeMode: 'Block',
            persistentVolumeReclaimPolicy: 'Delete',
            hostPath: { path: 'a/../b' },
          },
        },
      },
    },
    errors: [
      'spec.source.inlineVolumeSpec.claimRef: Forbidden: may not be specified in the context of inline volumes',
      'spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes',
      'spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes',
      'spec.source.inlineVolumeSpec.accessModes: Required value',
      'spec.source.inlineVolumeSpec.persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes',
      'spec.source.inlineVolumeSpec.nodeAffinity: Forbidden: may not be specified in the context of inline volumes',
      'spec.source.inlineVolumeSpec.hostPath.path: Invalid value: "a/../b": must not contain \'..\'',
      'spec.source.inlineVolumeSpec.storageClassName: Forbidden: may not be specified in the context of inline volumes',
      'spec.source.inlineVolumeSpec.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes',
    ],
  },
  {
    rule: 'certificates.ValidateCertificateSigningRequestSignerName',
    kind: 'CertificateSigningRequest',
    fields: { spec: { signerName: 'signer' } },
    errors: ['spec.signerName: Invalid value: "signer": must be a fully qualified domain and path of the form \'example.com/signer-name\''],
  },
  {
    rule: 'certificates.validateCertificateSigningRequest: usages',
    kind: 'CertificateSigningRequest',
    fields: { spec: { usages: ['other', 'digital signature', 'digital signature'] } },
    errors: [
      'spec.usages[0]: Unsupported value: "other": supported values: "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "da…',
      'spec.usages[2]: Duplicate value: "digital signature"',
    ],
  },
  {
    rule: 'certificates.validateCertificateSigningRequest: the duration',
    kind: 'CertificateSigningRequest',
    fields: { spec: { expirationSeconds: 599 } },
    errors: ['spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)'],
  },
  {
    rule: 'storage.validateNodeAllocatableUpdatePeriodSeconds',
    kind: 'CSIDriver',
    fields: { spec: { nodeAllocatableUpdatePeriodSeconds: 9 } },
    errors: ['spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds'],
  },
  {
    rule: 'resource.validateDeviceToleration',
    kind: 'ResourceClaim',
    fields: {
      spec: {
        devices: {
          requests: [
            { name: 'r', exactly: { deviceClassName: 'class', tolerations: [{ key: 'a b', operator: 'Other' }, { operator: 'Equal' }] } },
          ],
        },
      },
    },
    errors: [
      "spec.devices.requests[0].exactly.tolerations[0].key: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and mus…",
      'spec.devices.requests[0].exactly.tolerations[0].operator: Unsupported value: "Other": supported values: "Equal", "Exists"',
    ],
  },
  {
    rule: 'resource.validateFullyQualifiedName',
    kind: 'ResourceClaim',
    fields: {
      spec: { devices: { requests: [{ name: 'r', exactly: { deviceClassName: 'class' } }], constraints: [{ matchAttribute: 'name' }] } },
    },
    errors: ['spec.devices.constraints[0].matchAttribute: Invalid value: "name": must include a domain'],
  },
  {
    rule: 'resource.validateDeviceClassSpec: the configuration',
    kind: 'DeviceClass',
    fields: { spec: { config: [{}] } },
    errors: ['spec.config[0].opaque: Required value'],
  },
];
