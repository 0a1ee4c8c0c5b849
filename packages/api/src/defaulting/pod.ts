import { defaultPullPolicy } from '../component-helpers/image-reference.ts';
import { isObject, own } from '../json/json.ts';
import { podLevelResources, requestsFromLimits, resourceLists } from './resources.ts';
import {
  atField,
  chain,
  defaults,
  forEachItem,
  objectAt,
  textAt,
  when,
  withField,
  zeroDefaults,
  type DefaultingRule,
} from './defaulting-rule.ts';

const httpGet = atField('httpGet', defaults({ path: '/', scheme: 'HTTP' }));
const handler = chain(httpGet, atField('grpc', defaults({ service: '' })));
const probe = chain(zeroDefaults({ timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3 }), handler);
const fieldRef = atField('fieldRef', defaults({ apiVersion: 'v1' }));

const containerOf = (...more: readonly DefaultingRule[]): DefaultingRule =>
  chain(
    defaults({
      imagePullPolicy: (container) => defaultPullPolicy(textAt(container, 'image')),
      terminationMessagePath: '/dev/termination-log',
      terminationMessagePolicy: 'File',
      // Go always writes this struct, and Go clients send it back: without it an unchanged template would compare as changed
      resources: {},
    }),
    forEachItem('ports', defaults({ protocol: 'TCP' })),
    forEachItem('env', atField('valueFrom', chain(fieldRef, atField('fileKeyRef', defaults({ optional: false }))))),
    atField('resources', resourceLists('limits', 'requests')),
    atField('livenessProbe', probe),
    atField('readinessProbe', probe),
    atField('startupProbe', probe),
    atField('lifecycle', chain(atField('postStart', handler), atField('preStop', handler))),
    ...more,
  );
const container = containerOf();

const downwardItems = forEachItem('items', fieldRef);
const projected = chain(
  defaults({ defaultMode: 0o644 }),
  forEachItem(
    'sources',
    chain(atField('downwardAPI', downwardItems), atField('serviceAccountToken', defaults({ expirationSeconds: 3600 }))),
  ),
);
export const claimSpec: DefaultingRule = chain(
  defaults({ volumeMode: 'Filesystem' }),
  atField('resources', resourceLists('limits', 'requests')),
);
/** Defaults of the volume sources that pods and PersistentVolumes share. */
export const sharedSources: DefaultingRule = chain(
  atField('hostPath', defaults({ type: '' })),
  atField('iscsi', defaults({ iscsiInterface: 'default' })),
  atField('rbd', defaults({ pool: 'rbd', user: 'admin', keyring: '/etc/ceph/keyring' })),
  atField('azureDisk', defaults({ cachingMode: 'ReadWrite', fsType: 'ext4', readOnly: false, kind: 'Shared' })),
  atField('scaleIO', defaults({ storageMode: 'ThinProvisioned', fsType: 'xfs' })),
);
const volume = chain(
  // A volume without a source is an emptyDir.
  (value) => (Object.keys(value).some((key) => key !== 'name') ? value : { ...value, emptyDir: {} }),
  sharedSources,
  atField('secret', defaults({ defaultMode: 0o644 })),
  atField('configMap', defaults({ defaultMode: 0o644 })),
  atField('downwardAPI', chain(defaults({ defaultMode: 0o644 }), downwardItems)),
  atField('projected', projected),
  atField('image', defaults({ pullPolicy: (value) => defaultPullPolicy(textAt(value, 'reference')) })),
  atField('ephemeral', atField('volumeClaimTemplate', atField('spec', claimSpec))),
);

/** Sets `serviceAccountName` and its deprecated alias `serviceAccount` to the same value. */
const serviceAccountNames: DefaultingRule = (spec) => {
  const name = textAt(spec, 'serviceAccountName') || textAt(spec, 'serviceAccount');
  return name === '' ? spec : withField(withField(spec, 'serviceAccountName', name), 'serviceAccount', name);
};

/** Defaults of every pod spec, in pods and in templates. */
export const podSpec: DefaultingRule = chain(
  defaults({
    dnsPolicy: 'ClusterFirst',
    restartPolicy: 'Always',
    securityContext: {},
    terminationGracePeriodSeconds: 30,
    schedulerName: 'default-scheduler',
  }),
  serviceAccountNames,
  forEachItem('volumes', volume),
  forEachItem('initContainers', container),
  forEachItem('containers', container),
  forEachItem('ephemeralContainers', container),
  atField('resources', resourceLists('limits', 'requests')),
  resourceLists('overhead'),
);
export const podTemplate: DefaultingRule = (template) => {
  const spec = own(template, 'spec');
  return withField(template, 'spec', podSpec(isObject(spec) ? spec : {}));
};

const hostPorts = forEachItem('ports', (port) => {
  const containerPort = own(port, 'containerPort');
  return (own(port, 'hostPort') ?? 0) === 0 && typeof containerPort === 'number' && containerPort !== 0
    ? { ...port, hostPort: containerPort }
    : port;
});
const hostNetwork = when(
  (spec) => own(spec, 'hostNetwork') === true,
  chain(forEachItem('containers', hostPorts), forEachItem('initContainers', hostPorts)),
);

/** Makes a field with a single IP address consistent with the field that lists all addresses. The single address takes precedence. */
export const syncAddresses =
  (single: string, list: string, wrap: (address: string) => unknown, unwrap: (item: unknown) => unknown): DefaultingRule =>
  (value) => {
    const address = textAt(value, single);
    const items = own(value, list);
    const first: unknown = Array.isArray(items) ? unwrap(items[0]) : undefined;
    if (address !== '' && first !== address) return { ...value, [list]: [wrap(address)] };
    return address === '' && typeof first === 'string' ? { ...value, [single]: first } : value;
  };
const podIps = syncAddresses(
  'podIP',
  'podIPs',
  (ip) => ({ ip }),
  (item) => (isObject(item) ? item['ip'] : undefined),
);

const podStatus = chain(
  podIps,
  ...['initContainerStatuses', 'containerStatuses', 'ephemeralContainerStatuses'].map((key) =>
    forEachItem(key, chain(resourceLists('allocatedResources'), atField('resources', resourceLists('limits', 'requests')))),
  ),
);

export const pod: DefaultingRule = chain(
  (value) =>
    withField(
      value,
      'spec',
      chain(
        podSpec,
        forEachItem('containers', requestsFromLimits),
        forEachItem('initContainers', requestsFromLimits),
        podLevelResources,
        defaults({ enableServiceLinks: true }),
        hostNetwork,
      )(objectAt(value, 'spec')),
    ),
  atField('status', podStatus),
);

/** Copies the labels of the template to objects without labels. */
export const labelsFromTemplate: DefaultingRule = (value) => {
  const labels = objectAt(objectAt(objectAt(objectAt(value, 'spec'), 'template'), 'metadata'), 'labels');
  const metadata = objectAt(value, 'metadata');
  if (Object.keys(labels).length === 0 || Object.keys(objectAt(metadata, 'labels')).length > 0) return value;
  return { ...value, metadata: { ...metadata, labels } };
};
