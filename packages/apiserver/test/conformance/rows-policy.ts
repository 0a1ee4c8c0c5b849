import { certificateRequest } from '@oarlock/testing/sample-certificates';
import { ready, type Row } from './operations.ts';

const admission = '/apis/admissionregistration.k8s.io/v1';
const matches = { resourceRules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['nothings'] }] };
const resource = '/apis/resource.k8s.io/v1';
const claim = { devices: { requests: [{ name: 'r', exactly: { deviceClassName: 'c' } }] } };

/** Kinds of cluster policy: admission, priorities, networks, devices. */
export const policyRows: readonly (readonly [title: string, row: Row])[] = [
  [
    '[sig-api-machinery] API priority and fairness should support FlowSchema API operations [Conformance]',
    {
      collection: '/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas',
      kind: 'FlowSchema',
      body: {
        spec: {
          matchingPrecedence: 10_000,
          priorityLevelConfiguration: { name: 'global-default' },
          rules: [
            {
              subjects: [{ kind: 'User', user: { name: 'example' } }],
              resourceRules: [{ verbs: ['list'], apiGroups: [''], resources: ['secrets'], namespaces: ['default'] }],
            },
          ],
        },
      },
      change: { spec: { matchingPrecedence: 9999 } },
      status: { conditions: [{ ...ready, type: 'PatchStatus' }] },
      merges: ['conditions'],
    },
  ],
  [
    '[sig-api-machinery] API priority and fairness should support PriorityLevelConfiguration API operations [Conformance]',
    {
      collection: '/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations',
      kind: 'PriorityLevelConfiguration',
      body: { spec: { type: 'Limited', limited: { nominalConcurrencyShares: 2, limitResponse: { type: 'Reject' } } } },
      change: { spec: { limited: { nominalConcurrencyShares: 4 } } },
      status: { conditions: [{ ...ready, type: 'PatchStatus' }] },
      merges: ['conditions'],
    },
  ],
  [
    '[sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should support ValidatingAdmissionPolicy API operations [Conformance]',
    {
      collection: `${admission}/validatingadmissionpolicies`,
      kind: 'ValidatingAdmissionPolicy',
      body: { spec: { failurePolicy: 'Fail', matchConstraints: matches, validations: [{ expression: 'true', message: 'no' }] } },
      change: { spec: { failurePolicy: 'Ignore' } },
      status: { conditions: [{ ...ready, type: 'PatchStatus' }] },
      merges: ['conditions'],
    },
  ],
  [
    '[sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should support ValidatingAdmissionPolicyBinding API operations [Conformance]',
    {
      collection: `${admission}/validatingadmissionpolicybindings`,
      kind: 'ValidatingAdmissionPolicyBinding',
      body: { spec: { policyName: 'nobody.example.com', validationActions: ['Deny'] } },
      change: { spec: { validationActions: ['Warn'] } },
    },
  ],
  [
    '[sig-api-machinery] MutatingAdmissionPolicy [Privileged:ClusterAdmin] should support MutatingAdmissionPolicy API operations [Conformance]',
    {
      collection: `${admission}/mutatingadmissionpolicies`,
      kind: 'MutatingAdmissionPolicy',
      body: {
        spec: {
          failurePolicy: 'Fail',
          reinvocationPolicy: 'Never',
          matchConstraints: matches,
          mutations: [{ patchType: 'ApplyConfiguration', applyConfiguration: { expression: 'Object{}' } }],
        },
      },
      change: { spec: { failurePolicy: 'Ignore' } },
    },
  ],
  [
    '[sig-api-machinery] MutatingAdmissionPolicy [Privileged:ClusterAdmin] should support MutatingAdmissionPolicyBinding API operations [Conformance]',
    {
      collection: `${admission}/mutatingadmissionpolicybindings`,
      kind: 'MutatingAdmissionPolicyBinding',
      body: { spec: { policyName: 'nobody.example.com' } },
      change: { spec: { policyName: 'another.example.com' } },
    },
  ],
  [
    '[sig-auth] Certificates API [Privileged:ClusterAdmin] should support CSR API operations [Conformance]',
    {
      collection: '/apis/certificates.k8s.io/v1/certificatesigningrequests',
      kind: 'CertificateSigningRequest',
      subresources: ['approval', 'status'],
      body: {
        spec: {
          request: certificateRequest,
          signerName: 'example.com/e2e',
          expirationSeconds: 3600,
          usages: ['digital signature', 'key encipherment', 'server auth'],
        },
      },
    },
  ],
  [
    '[sig-network] EndpointSlice should support creating EndpointSlice API operations [Conformance]',
    {
      collection: '/apis/discovery.k8s.io/v1/namespaces/NS/endpointslices',
      kind: 'EndpointSlice',
      body: { addressType: 'IPv4', endpoints: [{ addresses: ['1.2.3.4', '5.6.7.8'] }], ports: [{ name: 'http', port: 80 }] },
      change: { ports: [{ name: 'http', port: 8080 }] },
    },
  ],
  [
    '[sig-network] Ingress API should support creating Ingress API operations [Conformance]',
    {
      collection: '/apis/networking.k8s.io/v1/namespaces/NS/ingresses',
      kind: 'Ingress',
      body: {
        spec: {
          defaultBackend: { service: { name: 'default-backend', port: { number: 80 } } },
          rules: [
            {
              host: 'foo.bar.com',
              http: { paths: [{ path: '/', pathType: 'Prefix', backend: { service: { name: 'test', port: { number: 8080 } } } }] },
            },
          ],
        },
      },
      change: { spec: { ingressClassName: 'other' } },
      status: { loadBalancer: { ingress: [{ ip: '169.1.1.1' }] } },
    },
  ],
  [
    '[sig-network] IngressClass API should support creating IngressClass API operations [Conformance]',
    {
      collection: '/apis/networking.k8s.io/v1/ingressclasses',
      kind: 'IngressClass',
      body: {
        spec: { controller: 'example.com/controller', parameters: { apiGroup: 'k8s.example.com', kind: 'P', name: 'p', scope: 'Cluster' } },
      },
    },
  ],
  [
    '[sig-network] Netpol API should support creating NetworkPolicy API operations',
    {
      collection: '/apis/networking.k8s.io/v1/namespaces/NS/networkpolicies',
      kind: 'NetworkPolicy',
      body: {
        spec: {
          podSelector: { matchLabels: { pod: 'a' } },
          policyTypes: ['Ingress'],
          ingress: [{ ports: [{ port: 80, protocol: 'TCP' }] }],
        },
      },
      change: { spec: { policyTypes: ['Ingress', 'Egress'] } },
    },
  ],
  [
    '[sig-node] RuntimeClass should support RuntimeClasses API operations [Conformance]',
    {
      collection: '/apis/node.k8s.io/v1/runtimeclasses',
      kind: 'RuntimeClass',
      body: { handler: 'preconfigured', overhead: { podFixed: { cpu: '10m' } } },
    },
  ],
  [
    '[sig-node] PodTemplates should run the lifecycle of PodTemplates [Conformance], and should delete a collection of pod templates, and should replace a pod template',
    {
      collection: '/api/v1/namespaces/NS/podtemplates',
      kind: 'PodTemplate',
      body: { template: { metadata: { labels: { app: 'x' } }, spec: { containers: [{ name: 'nginx', image: 'nginx' }] } } },
      change: { template: { metadata: { labels: { app: 'y' } } } },
    },
  ],
  [
    '[sig-node] [DRA] CRUD Tests resource.k8s.io/v1 DeviceClass [Conformance]',
    {
      collection: `${resource}/deviceclasses`,
      kind: 'DeviceClass',
      body: { spec: { selectors: [{ cel: { expression: 'device.driver == "a"' } }] } },
      change: { spec: { selectors: [{ cel: { expression: 'device.driver == "b"' } }] } },
    },
  ],
  [
    '[sig-node] [DRA] CRUD Tests resource.k8s.io/v1 ResourceClaim [Conformance]',
    {
      collection: `${resource}/namespaces/NS/resourceclaims`,
      kind: 'ResourceClaim',
      body: { spec: claim },
      status: { allocation: { devices: { results: [{ request: 'r', driver: 'd.example.com', pool: 'p', device: 'x' }] } } },
    },
  ],
  [
    '[sig-node] [DRA] CRUD Tests resource.k8s.io/v1 ResourceClaimTemplate [Conformance]',
    { collection: `${resource}/namespaces/NS/resourceclaimtemplates`, kind: 'ResourceClaimTemplate', body: { spec: { spec: claim } } },
  ],
  [
    '[sig-node] [DRA] CRUD Tests resource.k8s.io/v1 ResourceSlice [Conformance]',
    {
      collection: `${resource}/resourceslices`,
      kind: 'ResourceSlice',
      body: {
        spec: {
          driver: 'd.example.com',
          nodeName: 'n',
          pool: { name: 'p', resourceSliceCount: 1, generation: 1 },
          devices: [{ name: 'x' }],
        },
      },
      change: { spec: { pool: { generation: 2 } } },
    },
  ],
]; // prettier-ignore
