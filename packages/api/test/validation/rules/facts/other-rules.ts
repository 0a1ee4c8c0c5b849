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
      'spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n@@ -2,7 +2,7 @@\n   "GCEPersistentDisk": null,\n   "AWSElasticBlockStore": null,\n   "HostPath": {\n-    "Path": "/data",\n+    "Path": "/other",\n     "Type": ""\n   },\n   "Glusterfs": null,\n',
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
    errors: [
      'spec.devices.constraints[0].matchAttribute: Invalid value: "name": a fully qualified name must be a domain and a name separated by a slash',
    ],
  },
  {
    rule: 'resource.validateDeviceClassSpec: the configuration',
    kind: 'DeviceClass',
    fields: { spec: { config: [{}] } },
    errors: ['spec.config[0].opaque: Required value'],
  },
  {
    rule: 'resource.validateDeviceClassSpec: extendedResourceName',
    kind: 'DeviceClass',
    fields: { spec: { extendedResourceName: 'cpu' } },
    errors: ['spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name'],
  },
  {
    rule: 'resource.validateDeviceAttribute',
    kind: 'ResourceSlice',
    fields: {
      spec: {
        devices: [
          {
            name: 'd',
            attributes: { a: {}, b: { bool: true, int: 1 }, c: { version: '1.2' }, d: { string: 'x'.repeat(65) }, 'e/f/g': { int: 1 } },
          },
        ],
      },
    },
    errors: [
      'spec.devices[0].attributes[a]: Invalid value: "": exactly one value must be specified',
      'spec.devices[0].attributes[b]: Invalid value: {"bool":true,"int":1}: exactly one value must be specified',
      'spec.devices[0].attributes[c].version: Invalid value: "1.2": must be a string compatible with semver.org spec 2.0.0',
      'spec.devices[0].attributes[d].string: Too long: may not be more than 64 bytes',
      'spec.devices[0].attributes: Invalid value: "e/f/g": must not contain more than one slash',
    ],
  },
  {
    rule: 'resource.validateDeviceCapacity: a policy without shared use',
    kind: 'ResourceSlice',
    fields: { spec: { devices: [{ name: 'd', capacity: { c: { value: '1Gi', requestPolicy: { default: '1Mi' } } } }] } },
    errors: ['spec.devices[0].capacity[c].requestPolicy: Forbidden: allowMultipleAllocations must be true'],
  },
  {
    rule: 'resource.validateRequestPolicy: values',
    kind: 'ResourceSlice',
    fields: {
      spec: {
        devices: [
          {
            name: 'd',
            allowMultipleAllocations: true,
            capacity: { c: { value: '4', requestPolicy: { default: '3', validValues: ['2', '1', '5', '5'] } } },
          },
        ],
      },
    },
    errors: [
      'spec.devices[0].capacity[c].requestPolicy.validValues[1]: Invalid value: "1": values must be sorted in ascending order',
      'spec.devices[0].capacity[c].requestPolicy.validValues[2]: Invalid value: "5": option is larger than capacity value: 4',
      'spec.devices[0].capacity[c].requestPolicy.validValues[3]: Invalid value: "5": option is larger than capacity value: 4',
      'spec.devices[0].capacity[c].requestPolicy.validValues[3]: Duplicate value: "5"',
      'spec.devices[0].capacity[c].requestPolicy.validValues: Invalid value: "3": default value is not valid according to the requestPolicy',
    ],
  },
  {
    rule: 'resource.validateRequestPolicy: a range',
    kind: 'ResourceSlice',
    fields: {
      spec: {
        devices: [
          {
            name: 'd',
            allowMultipleAllocations: true,
            capacity: { c: { value: '10', requestPolicy: { default: '4', validRange: { min: '1', max: '12', step: '2' } } } },
          },
        ],
      },
    },
    errors: [
      'spec.devices[0].capacity[c].requestPolicy.validRange.max: Invalid value: "12": max is larger than capacity value: 10',
      'spec.devices[0].capacity[c].requestPolicy.validRange.step: Invalid value: "4": value is not a multiple of a given step (2) from (1)',
      'spec.devices[0].capacity[c].requestPolicy.validRange.step: Invalid value: "12": value is not a multiple of a given step (2) from (1)',
    ],
  },
  {
    rule: 'resource.validateDeviceCounterConsumption, validateDeviceBindingParameters',
    kind: 'ResourceSlice',
    fields: {
      spec: { devices: [{ name: 'd', consumesCounters: [{ counterSet: '', counters: {} }], bindingConditions: ['a', 'a'] }] },
    },
    errors: [
      'spec.devices[0].consumesCounters[0].counterSet: Required value',
      'spec.devices[0].consumesCounters[0].counters: Required value',
      'spec.devices[0].bindingConditions[1]: Duplicate value: "a"',
      'spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions',
    ],
  },
  {
    rule: 'resource.validateResourceSliceSpec: nodes of devices',
    kind: 'ResourceSlice',
    fields: { spec: { nodeName: undefined, perDeviceNodeSelection: true, devices: [{ name: 'd' }, { name: 'd', nodeName: 'n' }] } },
    errors: [
      'spec.devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec',
      'spec.devices[1]: Duplicate value: "d"',
    ],
  },
  {
    rule: 'resource.validateResourceClaimTemplateSpec: metadata',
    kind: 'ResourceClaimTemplate',
    fields: { spec: { metadata: { labels: { a: '-' } } } },
    errors: ['spec.metadata.labels: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters…'],
  },
  {
    rule: 'resource.validateDeviceRequest: two forms',
    kind: 'ResourceClaim',
    fields: {
      spec: {
        devices: {
          requests: [
            { name: 'r', exactly: { deviceClassName: 'class' }, firstAvailable: [{ name: 's', deviceClassName: 'class' }] },
            {
              name: 't',
              firstAvailable: [
                { name: 's', deviceClassName: 'class' },
                { name: 's', deviceClassName: 'class' },
              ],
            },
          ],
          constraints: [{ requests: ['t/none'], matchAttribute: 'a/b' }, {}],
        },
      },
    },
    errors: [
      'spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set',
      'spec.devices.requests[1].firstAvailable[1]: Duplicate value: "s"',
      'spec.devices.constraints[0].requests[0]: Invalid value: "t/none": must be the name of a request in the claim or the name of a request and a subrequest separated by \'/\'',
      'spec.devices.constraints[1]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set',
    ],
  },
  {
    rule: 'resource.validateResourceClaimStatusUpdate',
    kind: 'ResourceClaim',
    fields: {
      status: {
        reservedFor: [
          { resource: 'pods', name: 'p', uid: 'u' },
          { resource: 'pods', name: 'q', uid: 'u' },
        ],
        devices: [{ driver: 'd.example.com', pool: 'p', device: 'd' }],
      },
    },
    old: {},
    subresource: 'status',
    errors: [
      'status.reservedFor[1]: Duplicate value: "u"',
      'status.devices[0]: Invalid value: "d.example.com/p/d": must be an allocated device in the claim',
      'status.reservedFor: Forbidden: may not be specified when `allocated` is not set',
    ],
  },
  {
    rule: 'discovery.validateHints',
    kind: 'EndpointSlice',
    fields: { endpoints: [{ addresses: ['10.0.0.1'], hints: { forZones: [{ name: '' }], forNodes: [{ name: 'A' }] } }] },
    errors: [
      'endpoints[0].hints.forZones[0].name: Required value',
      'endpoints[0].hints.forNodes[0].name: Invalid value: "A": a lowercase RFC 1123 subdomain…',
    ],
  },
];
