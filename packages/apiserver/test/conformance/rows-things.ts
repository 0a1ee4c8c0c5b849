import type { Row } from './operations.ts';

const storage = '/apis/storage.k8s.io/v1';

/** Storage kinds and namespaced kinds. */
export const thingRows: readonly (readonly [title: string, row: Row])[] = [
  [
    '[sig-storage] CSIStorageCapacity should support CSIStorageCapacities API operations [Conformance]',
    {
      collection: `${storage}/namespaces/NS/csistoragecapacities`,
      kind: 'CSIStorageCapacity',
      body: { storageClassName: 'c', capacity: '10Gi' },
      change: { capacity: '20Gi' },
    },
  ],
  [
    '[sig-storage] StorageClasses CSI Conformance should run through the lifecycle of a StorageClass [Conformance]',
    {
      collection: `${storage}/storageclasses`,
      kind: 'StorageClass',
      body: { provisioner: 'e2e-fake-provisioner', reclaimPolicy: 'Delete' },
    },
  ],
  [
    '[sig-storage] CSIInlineVolumes should run through the lifecycle of a CSIDriver [Conformance]',
    {
      collection: `${storage}/csidrivers`,
      kind: 'CSIDriver',
      body: { spec: { attachRequired: false, volumeLifecycleModes: ['Ephemeral'] } },
      change: { spec: { requiresRepublish: true } },
    },
  ],
  [
    '[sig-storage] CSINodes CSI Conformance should run through the lifecycle of a csinode [Conformance]',
    {
      collection: `${storage}/csinodes`,
      kind: 'CSINode',
      body: { spec: { drivers: [{ name: 'd.example.com', nodeID: 'n', topologyKeys: ['t'] }] } },
    },
  ],
  [
    '[sig-storage] VolumeAttachment Conformance should run through the lifecycle of a VolumeAttachment, and should apply changes to a volumeattachment status [Conformance]',
    {
      collection: `${storage}/volumeattachments`,
      kind: 'VolumeAttachment',
      body: { spec: { attacher: 'e2e-test.storage.k8s.io', nodeName: 'n', source: { persistentVolumeName: 'pv' } } },
      status: { attached: true },
    },
  ],
  [
    '[sig-storage] VolumeAttributesClass [FeatureGate:VolumeAttributesClass] should run through the lifecycle of a VolumeAttributesClass [Conformance]',
    {
      collection: `${storage}/volumeattributesclasses`,
      kind: 'VolumeAttributesClass',
      body: { driverName: 'd.example.com', parameters: { iops: '1' } },
    },
  ],
  [
    '[sig-scheduling] SchedulerPreemption [Serial] PriorityClass endpoints verify PriorityClass endpoints can be operated with different HTTP methods [Conformance]',
    {
      collection: '/apis/scheduling.k8s.io/v1/priorityclasses',
      kind: 'PriorityClass',
      body: { value: 1000, description: 'a' },
      change: { description: 'b' },
    },
  ],
  [
    '[sig-node] Lease lease API should be available [Conformance]',
    {
      collection: '/apis/coordination.k8s.io/v1/namespaces/NS/leases',
      kind: 'Lease',
      body: {
        spec: { holderIdentity: 'holder', leaseDurationSeconds: 30, acquireTime: '2026-01-01T00:00:00.000000Z', leaseTransitions: 0 },
      },
      change: { spec: { holderIdentity: 'other', leaseTransitions: 1 } },
    },
  ],
  [
    '[sig-node] ConfigMap should run through a ConfigMap lifecycle [Conformance]',
    {
      collection: '/api/v1/namespaces/NS/configmaps',
      kind: 'ConfigMap',
      body: { data: { valueName: 'value' } },
      change: { data: { valueName: 'value1' } },
    },
  ],
  [
    '[sig-node] Secrets should patch a secret [Conformance]',
    {
      collection: '/api/v1/namespaces/NS/secrets',
      kind: 'Secret',
      body: { type: 'Opaque', data: { key: 'dmFsdWU=' } },
      change: { data: { key: 'dmFsdWUx' } },
    },
  ],
  [
    '[sig-network] Endpoints should test the lifecycle of an Endpoint [Conformance]',
    {
      collection: '/api/v1/namespaces/NS/endpoints',
      kind: 'Endpoints',
      body: { subsets: [{ addresses: [{ ip: '10.0.0.24' }], ports: [{ name: 'http', port: 80, protocol: 'TCP' }] }] },
      change: { subsets: [{ addresses: [{ ip: '10.0.0.25' }], ports: [{ name: 'http-test', port: 8080, protocol: 'TCP' }] }] },
    },
  ],
  [
    '[sig-instrumentation] Events should manage the lifecycle of an event, and should delete a collection of events [Conformance]',
    {
      collection: '/api/v1/namespaces/NS/events',
      kind: 'Event',
      body: {
        involvedObject: { kind: 'ConfigMap', namespace: 'NS', name: 'a' },
        reason: 'Test',
        message: 'This is a test event',
        type: 'Normal',
        action: 'Do',
        reportingComponent: 'test',
        source: { component: 'test' },
      },
      change: { message: 'patched' },
    },
  ],
  [
    '[sig-instrumentation] Events API should ensure that an event can be fetched, patched, deleted, and listed, and should delete a collection of events [Conformance]',
    {
      collection: '/apis/events.k8s.io/v1/namespaces/NS/events',
      kind: 'Event',
      body: {
        regarding: { kind: 'ConfigMap', namespace: 'NS', name: 'a' },
        eventTime: '2026-01-01T00:00:00.000000Z',
        note: 'n',
        type: 'Normal',
        reason: 'Test',
        action: 'Do',
        reportingController: 'test',
        reportingInstance: 'test-1',
      },
      change: { series: { count: 2, lastObservedTime: '2026-01-02T00:00:00.000000Z' } },
    },
  ],
  [
    '[sig-apps] DisruptionController should create a PodDisruptionBudget, and should list and delete a collection of PodDisruptionBudgets [Conformance]',
    {
      collection: '/apis/policy/v1/namespaces/NS/poddisruptionbudgets',
      kind: 'PodDisruptionBudget',
      body: { spec: { minAvailable: 1, selector: { matchLabels: { foo: 'bar' } } } },
      change: { spec: { minAvailable: '50%' } },
    },
  ],
  [
    '[sig-api-machinery] ResourceQuota should manage the lifecycle of a ResourceQuota [Conformance]',
    {
      collection: '/api/v1/namespaces/NS/resourcequotas',
      kind: 'ResourceQuota',
      body: { spec: { hard: { pods: '100' } } },
      change: { spec: { hard: { pods: '200' } } },
    },
  ],
  [
    '[sig-scheduling] LimitRange should list, patch and delete a LimitRange by collection [Conformance]',
    {
      collection: '/api/v1/namespaces/NS/limitranges',
      kind: 'LimitRange',
      body: { spec: { limits: [{ type: 'PersistentVolumeClaim', min: { storage: '1Gi' } }] } },
      change: { spec: { limits: [{ type: 'PersistentVolumeClaim', min: { storage: '2Gi' } }] } },
    },
  ],
  [
    '[sig-auth] ServiceAccounts should run through the lifecycle of a ServiceAccount [Conformance]',
    {
      collection: '/api/v1/namespaces/NS/serviceaccounts',
      kind: 'ServiceAccount',
      body: { automountServiceAccountToken: false },
      change: { automountServiceAccountToken: true },
    },
  ],
  [
    '[sig-apps] ControllerRevision [Serial] should manage the lifecycle of a ControllerRevision [Conformance], by itself',
    {
      collection: '/apis/apps/v1/namespaces/NS/controllerrevisions',
      kind: 'ControllerRevision',
      body: { revision: 1, data: { a: 'b' } },
      change: { revision: 2 },
    },
  ],
  [
    '[sig-autoscaling] HorizontalPodAutoscaler should support API operations',
    {
      collection: '/apis/autoscaling/v2/namespaces/NS/horizontalpodautoscalers',
      kind: 'HorizontalPodAutoscaler',
      body: { spec: { scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'nobody' }, minReplicas: 1, maxReplicas: 2 } },
      change: { spec: { maxReplicas: 3 } },
    },
  ],
  [
    '[sig-network] Services should delete a collection of services [Conformance]',
    {
      collection: '/api/v1/namespaces/NS/services',
      kind: 'Service',
      body: { spec: { ports: [{ port: 80 }], selector: { a: 'b' } } },
      change: { spec: { selector: { a: 'c' } } },
    },
  ],
]; // prettier-ignore
