import 'reflect-metadata';
import * as x509 from '@peculiar/x509';
import { claim, clerk, csr, inNamespace, keys, limits, named, pod, pods, signing, type Json } from './admission-objects.ts';

/** The effect of a plugin on one request: a rejection with this message, or an object with these fields. */
export interface Case {
  readonly plugin: string;
  readonly method?: 'POST' | 'PUT' | 'PATCH';
  readonly path: string;
  readonly body: object;
  /** User and groups, if not the administrator. */
  readonly as?: readonly [user: string, ...groups: string[]];
  readonly rejection?: readonly [code: number, words: string];
  readonly becomes?: Json;
}

const merge = { method: 'PATCH' } as const;
export const cases: readonly Case[] = [
  {
    plugin: 'admission-namespace-lifecycle',
    path: inNamespace('nowhere', 'configmaps'),
    body: named('v1', 'ConfigMap', 'm'),
    rejection: [404, 'namespaces "nowhere" not found'],
  },
  {
    plugin: 'admission-service-account',
    path: pods,
    body: pod({ serviceAccountName: 'nobody' }),
    rejection: [403, 'error looking up service account default/nobody: serviceaccount "nobody" not found'],
  },
  {
    plugin: 'admission-limit-ranger',
    path: inNamespace('limited', 'pods'),
    body: pod({}, limits('2')),
    rejection: [403, 'maximum cpu usage per Container is 1, but limit is 2'],
  },
  {
    plugin: 'admission-resource-quota',
    path: inNamespace('full', 'secrets'),
    body: named('v1', 'Secret', 's'),
    rejection: [403, 'exceeded quota: q, requested: count/secrets=1, used: count/secrets=0, limited: count/secrets=0'],
  },
  {
    plugin: 'admission-pod-security',
    path: inNamespace('safe', 'pods'),
    body: pod({ hostNetwork: true }),
    rejection: [403, 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'],
  },
  {
    plugin: 'admission-priority',
    path: pods,
    body: pod({ priorityClassName: 'urgent' }),
    rejection: [403, 'no PriorityClass with name urgent was found'],
  },
  {
    plugin: 'admission-default-toleration-seconds',
    path: pods,
    body: pod(),
    becomes: {
      spec: { tolerations: [{ key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 }] },
    },
  },
  {
    plugin: 'admission-taint-nodes-by-condition',
    path: '/api/v1/nodes',
    body: named('v1', 'Node', 'n3'),
    becomes: { spec: { taints: [{ key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' }] } },
  },
  {
    plugin: 'admission-default-storage-class',
    path: inNamespace('default', 'persistentvolumeclaims'),
    body: claim('c', '1Gi'),
    becomes: { spec: { storageClassName: 'fixed' } },
  },
  {
    plugin: 'admission-default-ingress-class',
    path: '/apis/networking.k8s.io/v1/namespaces/default/ingresses',
    body: named('networking.k8s.io/v1', 'Ingress', 'i', { spec: { defaultBackend: { service: { name: 's', port: { number: 80 } } } } }),
    becomes: { spec: { ingressClassName: 'front' } },
  },
  {
    plugin: 'admission-storage-object-in-use-protection',
    path: inNamespace('default', 'persistentvolumeclaims'),
    body: claim('c', '1Gi'),
    becomes: { metadata: { finalizers: ['kubernetes.io/pvc-protection'] } },
  },
  {
    plugin: 'admission-persistent-volume-claim-resize',
    ...merge,
    path: inNamespace('default', 'persistentvolumeclaims/bound'),
    body: { spec: { resources: { requests: { storage: '2Gi' } } } },
    rejection: [403, 'only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize'],
  },
  {
    plugin: 'admission-node-restriction',
    ...merge,
    path: '/api/v1/nodes/n2',
    body: { metadata: { labels: { a: 'b' } } },
    as: ['system:node:n1', 'system:nodes'],
    rejection: [403, 'node "n1" is not allowed to modify node "n2"'],
  },
  {
    plugin: 'admission-certificate-approval',
    ...merge,
    path: `${signing}/asked/approval`,
    body: { status: { conditions: [{ type: 'Approved', status: 'True', reason: 'x', message: 'x' }] } },
    as: clerk,
    rejection: [403, 'user not permitted to approve requests with signerName "kubernetes.io/kube-apiserver-client"'],
  },
  {
    plugin: 'admission-certificate-signing',
    ...merge,
    path: `${signing}/asked/status`,
    body: { status: { conditions: [{ type: 'Failed', status: 'True', reason: 'x', message: 'x' }] } },
    as: clerk,
    rejection: [403, 'user not permitted to sign requests with signerName "kubernetes.io/kube-apiserver-client"'],
  },
  {
    plugin: 'admission-certificate-subject-restriction',
    path: signing,
    body: await csr('root', 'O=system:masters,CN=eve'),
    rejection: [403, 'use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed'],
  },
  {
    plugin: 'admission-cluster-trust-bundle-attest',
    path: '/apis/certificates.k8s.io/v1beta1/clustertrustbundles',
    body: named('certificates.k8s.io/v1beta1', 'ClusterTrustBundle', 'example.com:ca:one', {
      spec: {
        signerName: 'example.com/ca',
        trustBundle: (
          await x509.X509CertificateGenerator.createSelfSigned({
            name: 'CN=ca',
            keys,
            signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
            extensions: [new x509.BasicConstraintsExtension(true, undefined, true)],
          })
        ).toString('pem'),
      },
    }),
    as: clerk,
    rejection: [403, 'user not permitted to attest for signerName "example.com/ca"'],
  },
  {
    plugin: 'admission-runtime-class',
    path: pods,
    body: pod({ runtimeClassName: 'gvisor' }),
    rejection: [403, 'pod rejected: RuntimeClass "gvisor" not found'],
  },
  {
    plugin: 'admission-owner-references-permission-enforcement',
    ...merge,
    path: inNamespace('default', 'configmaps/owned'),
    body: { metadata: { ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'o', uid: 'u' }] } },
    as: clerk,
    rejection: [403, "cannot set an ownerRef on a resource you can't delete: "],
  },
  {
    plugin: 'admission-always-pull-images',
    path: pods,
    body: pod({}, { imagePullPolicy: 'Never' }),
    becomes: { spec: { containers: [{ imagePullPolicy: 'Always' }] } },
  },
  {
    plugin: 'admission-extended-resource-toleration',
    path: pods,
    body: pod({}, { resources: { limits: { 'example.com/gpu': '1' } } }),
    becomes: { spec: { tolerations: [{ key: 'example.com/gpu', operator: 'Exists' }] } },
  },
  {
    plugin: 'admission-pod-node-selector',
    path: inNamespace('west', 'pods'),
    body: pod(),
    becomes: { spec: { nodeSelector: { zone: 'west' } } },
  },
  {
    plugin: 'admission-pod-toleration-restriction',
    path: inNamespace('tolerant', 'pods'),
    body: pod(),
    becomes: { spec: { tolerations: [{ key: 'slow', operator: 'Exists' }] } },
  },
  {
    plugin: 'admission-limit-pod-hard-anti-affinity-topology',
    path: pods,
    body: pod({
      affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: 'zone', labelSelector: {} }] } },
    }),
    rejection: [
      403,
      'affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed',
    ],
  },
  {
    plugin: 'admission-deny-service-external-ips',
    path: inNamespace('default', 'services'),
    body: named('v1', 'Service', 's', { spec: { ports: [{ port: 80 }], externalIPs: ['1.2.3.4'] } }),
    rejection: [403, 'Use of external IPs is denied by admission control'],
  },
  {
    plugin: 'admission-image-policy-webhook',
    path: pods,
    body: pod({}, { image: 'bad/app:1' }),
    rejection: [403, 'image policy webhook backend denied one or more images: bad/app:1 is not good'],
  },
  {
    plugin: 'admission-security-context-deny',
    path: pods,
    body: pod({ securityContext: { runAsUser: 7 } }),
    rejection: [403, 'pod.Spec.SecurityContext.RunAsUser is forbidden'],
  },
];
