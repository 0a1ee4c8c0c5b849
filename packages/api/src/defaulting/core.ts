import { isObject, own } from '../json/json.ts';
import { claimSpec, labelsFromTemplate, pod, podTemplate, sharedSources, syncAddresses } from './pod.ts';
import { fill, resourceLists } from './resources.ts';
import {
  atField,
  chain,
  defaults,
  forEachItem,
  fieldEquals,
  objectAt,
  textAt,
  when,
  atStruct,
  withField,
  type Fields,
  type DefaultingRule,
} from './defaulting-rule.ts';

const sessionAffinity: DefaultingRule = (spec) => {
  if (spec['sessionAffinity'] === 'None') return withField(spec, 'sessionAffinityConfig', undefined);
  if (spec['sessionAffinity'] !== 'ClientIP') return spec;
  const { timeoutSeconds } = objectAt(objectAt(spec, 'sessionAffinityConfig'), 'clientIP');
  return timeoutSeconds === undefined ? { ...spec, sessionAffinityConfig: { clientIP: { timeoutSeconds: 10800 } } } : spec;
};
const servicePort = chain(defaults({ protocol: 'TCP' }), (port) => {
  const target = own(port, 'targetPort');
  return (target === undefined || target === 0 || target === '') && typeof port['port'] === 'number'
    ? { ...port, targetPort: port['port'] }
    : port;
});
const typeIn = (spec: Fields, ...types: readonly string[]) => types.includes(textAt(spec, 'type'));
const external = (spec: Fields) =>
  typeIn(spec, 'LoadBalancer', 'NodePort') ||
  (typeIn(spec, 'ClusterIP') && Array.isArray(spec['externalIPs']) && spec['externalIPs'].length > 0);

const serviceSpec = chain(
  defaults({ sessionAffinity: 'None' }),
  sessionAffinity,
  defaults({ type: 'ClusterIP' }),
  forEachItem('ports', servicePort),
  when(external, defaults({ externalTrafficPolicy: 'Cluster' })),
  when((spec) => typeIn(spec, 'ClusterIP', 'NodePort', 'LoadBalancer'), defaults({ internalTrafficPolicy: 'Cluster' })),
  when(fieldEquals('type', 'LoadBalancer'), defaults({ allocateLoadBalancerNodePorts: true })),
);
const service = chain(
  atStruct('spec', serviceSpec),
  when(
    (value) => typeIn(objectAt(value, 'spec'), 'LoadBalancer'),
    atField(
      'status',
      atField(
        'loadBalancer',
        forEachItem(
          'ingress',
          when((ingress) => textAt(ingress, 'ip') !== '', defaults({ ipMode: 'VIP' })),
        ),
      ),
    ),
  ),
);

const nameLabel = 'kubernetes.io/metadata.name';
const namespace: DefaultingRule = chain(
  (value) => {
    const metadata = objectAt(value, 'metadata');
    const name = textAt(metadata, 'name');
    const labels = objectAt(metadata, 'labels');
    return name === '' || own(labels, nameLabel) === name
      ? value
      : { ...value, metadata: { ...metadata, labels: { ...labels, [nameLabel]: name } } };
  },
  atStruct('status', defaults({ phase: 'Active' })),
);

const node = chain(
  atField(
    'spec',
    syncAddresses(
      'podCIDR',
      'podCIDRs',
      (cidr) => cidr,
      (item) => item,
    ),
  ),
  atField(
    'status',
    chain(
      (status) =>
        own(status, 'allocatable') === undefined && isObject(own(status, 'capacity'))
          ? { ...status, allocatable: status['capacity'] }
          : status,
      resourceLists('capacity', 'allocatable'),
    ),
  ),
);

/** The defaults of a LimitRange item: default limits are copied from `max`, default requests from the default limits, otherwise from `min`. */
const limitRangeItem: DefaultingRule = chain(
  resourceLists('max', 'min', 'default', 'defaultRequest', 'maxLimitRequestRatio'),
  when(fieldEquals('type', 'Container'), (item) => {
    const limits = fill(objectAt(item, 'default'), objectAt(item, 'max'));
    const requests = fill(fill(objectAt(item, 'defaultRequest'), limits), objectAt(item, 'min'));
    const set = (value: Fields, key: string, list: Fields) =>
      Object.keys(list).length === 0 || list === own(value, key) ? value : { ...value, [key]: list };
    return set(set(item, 'default', limits), 'defaultRequest', requests);
  }),
);

export const claim: DefaultingRule = chain(
  atStruct('spec', claimSpec),
  atStruct('status', chain(defaults({ phase: 'Pending' }), resourceLists('capacity', 'allocatedResources'))),
);
const persistentVolume = chain(
  atStruct('status', defaults({ phase: 'Pending' })),
  atStruct(
    'spec',
    chain(defaults({ persistentVolumeReclaimPolicy: 'Retain', volumeMode: 'Filesystem' }), resourceLists('capacity'), sharedSources),
  ),
);

const replicationController = chain(
  (value) => {
    const spec = objectAt(value, 'spec');
    const labels = objectAt(objectAt(objectAt(spec, 'template'), 'metadata'), 'labels');
    if (Object.keys(labels).length === 0 || Object.keys(objectAt(spec, 'selector')).length > 0) return value;
    return { ...value, spec: { ...spec, selector: labels } };
  },
  labelsFromTemplate,
  atStruct('spec', chain(defaults({ replicas: 1 }), atField('template', podTemplate))),
);

/** Moves the values of the write-only field `stringData` to `data`, where they replace entries with the same key. */
const stringData: DefaultingRule = (value) => {
  const { stringData: texts, ...rest } = value;
  if (!isObject(texts)) return value;
  const encoded = Object.entries(texts).map(([key, text]) => [key, Buffer.from(String(text)).toString('base64')] as const);
  return { ...rest, data: { ...objectAt(value, 'data'), ...Object.fromEntries(encoded) } };
};

export const coreRules: Readonly<Record<string, DefaultingRule>> = {
  'v1/Pod': pod,
  'v1/PodTemplate': (value) => withField(value, 'template', podTemplate(objectAt(value, 'template'))),
  'v1/Service': service,
  'v1/Endpoints': forEachItem('subsets', forEachItem('ports', defaults({ protocol: 'TCP' }))),
  'v1/Namespace': namespace,
  'v1/Node': node,
  'v1/Secret': chain(stringData, defaults({ type: 'Opaque' })),
  'v1/LimitRange': atField('spec', forEachItem('limits', limitRangeItem)),
  'v1/ResourceQuota': chain(atField('spec', resourceLists('hard')), atField('status', resourceLists('hard', 'used'))),
  'v1/PersistentVolumeClaim': claim,
  'v1/PersistentVolume': persistentVolume,
  'v1/ReplicationController': replicationController,
  'discovery.k8s.io/v1/EndpointSlice': forEachItem('ports', defaults({ name: '', protocol: 'TCP' })),
};
