import { webcrypto } from 'node:crypto';
import 'reflect-metadata';
import * as x509 from '@peculiar/x509';

x509.cryptoProvider.set(webcrypto);

export type Json = Readonly<Record<string, unknown>>;
export const inNamespace = (namespace: string, resource: string) => `/api/v1/namespaces/${namespace}/${resource}`;
export const pods = inNamespace('default', 'pods');
export const pod = (spec: Json = {}, container: Json = {}): object => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { generateName: 'p-' },
  spec: { containers: [{ name: 'c', image: 'good/app:1', ...container }], ...spec },
});
export const limits = (cpu: string) => ({ resources: { limits: { cpu } } });
export const claim = (name: string, storage: string, more: Json = {}): Named => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage } }, ...more },
});
export interface Named extends Json {
  readonly metadata: { readonly name: string };
}
export const named = (apiVersion: string, kind: string, name: string, more: Json = {}, metadata: Json = {}): Named => ({
  apiVersion,
  kind,
  metadata: { name, ...metadata },
  ...more,
});
export const namespace = (name: string, annotations: Json = {}, labels: Json = {}) =>
  named('v1', 'Namespace', name, {}, { annotations, labels });
export const keys = await webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']);
export const csr = async (name: string, subject: string) => {
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: subject,
    keys,
    signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
  });
  return named('certificates.k8s.io/v1', 'CertificateSigningRequest', name, {
    spec: {
      signerName: 'kubernetes.io/kube-apiserver-client',
      usages: ['digital signature', 'client auth'],
      request: Buffer.from(request.toString('pem')).toString('base64'),
    },
  });
};
export const signing = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
export const rbac = 'rbac.authorization.k8s.io';

/** A user with write access to the tested resources only. */
export const clerk = ['clerk', 'system:authenticated'] as const;
const clerkRules = [
  {
    apiGroups: ['certificates.k8s.io'],
    resources: ['certificatesigningrequests/approval', 'certificatesigningrequests/status'],
    verbs: ['update', 'patch'],
  },
  { apiGroups: ['certificates.k8s.io'], resources: ['clustertrustbundles'], verbs: ['create'] },
  { apiGroups: [''], resources: ['configmaps'], verbs: ['create', 'update', 'patch'] },
];

/** Objects that exist before the tests, by the path they are posted to. */
export const before: readonly (readonly [path: string, object: Named])[] = [
  ['/api/v1/namespaces', namespace('limited')],
  ['/api/v1/namespaces', namespace('full')],
  ['/api/v1/namespaces', namespace('safe', {}, { 'pod-security.kubernetes.io/enforce': 'baseline' })],
  ['/api/v1/namespaces', namespace('west', { 'scheduler.alpha.kubernetes.io/node-selector': 'zone=west' })],
  [
    '/api/v1/namespaces',
    namespace('tolerant', { 'scheduler.alpha.kubernetes.io/defaultTolerations': '[{"key":"slow","operator":"Exists"}]' }),
  ],
  [
    inNamespace('limited', 'limitranges'),
    named('v1', 'LimitRange', 'l', { spec: { limits: [{ type: 'Container', max: { cpu: '1' }, default: { cpu: '100m' } }] } }),
  ],
  [inNamespace('full', 'resourcequotas'), named('v1', 'ResourceQuota', 'q', { spec: { hard: { 'count/secrets': '0' } } })],
  [
    '/apis/storage.k8s.io/v1/storageclasses',
    named(
      'storage.k8s.io/v1',
      'StorageClass',
      'fixed',
      { provisioner: 'x' },
      { annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } },
    ),
  ],
  [
    '/apis/networking.k8s.io/v1/ingressclasses',
    named(
      'networking.k8s.io/v1',
      'IngressClass',
      'front',
      { spec: { controller: 'x/y' } },
      { annotations: { 'ingressclass.kubernetes.io/is-default-class': 'true' } },
    ),
  ],
  [`/apis/${rbac}/v1/clusterroles`, named(`${rbac}/v1`, 'ClusterRole', 'clerk', { rules: clerkRules })],
  [
    `/apis/${rbac}/v1/clusterrolebindings`,
    named(`${rbac}/v1`, 'ClusterRoleBinding', 'clerk', {
      roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: 'clerk' },
      subjects: [{ apiGroup: rbac, kind: 'User', name: 'clerk' }],
    }),
  ],
  [
    '/api/v1/persistentvolumes',
    named('v1', 'PersistentVolume', 'disk', {
      spec: { capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOnce'], storageClassName: '', hostPath: { path: '/tmp/disk' } },
    }),
  ],
  [inNamespace('default', 'persistentvolumeclaims'), claim('bound', '1Gi', { storageClassName: '', volumeName: 'disk' })],
  ['/api/v1/nodes', named('v1', 'Node', 'n2')],
  [signing, await csr('asked', 'CN=ada')],
  [inNamespace('default', 'configmaps'), named('v1', 'ConfigMap', 'owned')],
];
