import type { Endpoints, Service } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { Ingress, IngressClass, IPAddress, NetworkPolicy, ServiceCIDR } from '@oarlock/api/types/networking-v1';
import { ageOf, joinFirst, labelsText, nameOf, none, selectorText, unset } from './cells.ts';
import { columnsOf, type Printer } from './printer.ts';

const hostPort = (host: string, port: number) => (host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`);

interface Balancer {
  readonly ingress?: readonly { readonly ip?: string; readonly hostname?: string }[];
}
const addresses = (balancer: Balancer | undefined): readonly string[] => [
  ...new Set((balancer?.ingress ?? []).map(({ ip, hostname }) => ip || hostname || '').filter((text) => text !== '')),
];

function externalAddress({ spec, status }: Service): string {
  const own = spec?.externalIPs ?? [];
  switch (spec?.type) {
    case 'ClusterIP':
    case 'NodePort':
      return own.join(',') || none;
    case 'LoadBalancer':
      return [...addresses(status?.loadBalancer), ...own].join(',') || '<pending>';
    case 'ExternalName':
      return spec.externalName ?? '';
    default:
      return '<unknown>';
  }
}

export const servicePrinter: Printer<Service> = {
  columns: columnsOf(
    'Name',
    { name: 'Type', about: 'How the service is reached.' },
    { name: 'Cluster-IP', about: 'Its address in the cluster.' },
    { name: 'External-IP', about: 'Its addresses outside.' },
    { name: 'Port(s)', about: 'Ports, with node ports and protocols.' },
    'Age',
    { name: 'Selector', wide: true, about: 'Labels of the pods behind it.' },
  ),
  cells(service, now) {
    const { spec } = service;
    const ports = (spec?.ports ?? [])
      .map(({ port, nodePort, protocol }) => `${port}${nodePort ? `:${nodePort}` : ''}/${protocol ?? 'TCP'}`)
      .join(',');
    return [
      nameOf(service),
      spec?.type ?? '',
      spec?.clusterIPs?.[0] ?? (spec?.clusterIP || none),
      externalAddress(service),
      ports || none,
      ageOf(service, now),
      labelsText(spec?.selector),
    ];
  },
};

export const endpointsPrinter: Printer<Endpoints> = {
  columns: columnsOf('Name', { name: 'Endpoints', about: 'Addresses that are ready.' }, 'Age'),
  cells(object, now) {
    const list = (object.subsets ?? []).flatMap(({ ports, addresses: ready = [] }) =>
      ports === undefined || ports.length === 0
        ? ready.map(({ ip }) => ip)
        : ports.flatMap(({ port }) => ready.map(({ ip }) => hostPort(ip, port))),
    );
    return [nameOf(object), joinFirst(list, none), ageOf(object, now)];
  },
};

export const endpointSlicePrinter: Printer<EndpointSlice> = {
  columns: columnsOf(
    'Name',
    { name: 'AddressType', about: 'What the addresses are.' },
    { name: 'Ports', about: 'Ports of every endpoint.' },
    { name: 'Endpoints', about: 'Addresses of the endpoints.' },
    'Age',
  ),
  cells: (object, now) => [
    nameOf(object),
    object.addressType ?? '',
    joinFirst(
      (object.ports ?? []).map(({ port, name }) => (port === undefined ? (name ?? '*') : String(port))),
      unset,
    ),
    joinFirst(
      (object.endpoints ?? []).flatMap((endpoint) => endpoint.addresses),
      unset,
    ),
    ageOf(object, now),
  ],
};

export const ingressPrinter: Printer<Ingress> = {
  columns: columnsOf(
    'Name',
    { name: 'Class', about: 'The class that serves it.' },
    { name: 'Hosts', about: 'Hosts that the rules are for.' },
    { name: 'Address', about: 'Where it is reached.' },
    { name: 'Ports', about: 'Ports it is reached on.' },
    'Age',
  ),
  cells(object, now) {
    const { spec, status } = object;
    const rules = spec?.rules ?? [];
    const hosts = rules
      .slice(0, 3)
      .map(({ host }) => host ?? '')
      .filter((host) => host !== '');
    const shown = hosts.length === 0 ? '*' : `${hosts.join(',')}${rules.length > 3 ? ` + ${rules.length - 3} more...` : ''}`;
    return [
      nameOf(object),
      spec?.ingressClassName ?? none,
      shown,
      addresses(status?.loadBalancer).join(','),
      (spec?.tls?.length ?? 0) > 0 ? '80, 443' : '80',
      ageOf(object, now),
    ];
  },
};

export const ingressClassPrinter: Printer<IngressClass> = {
  columns: columnsOf(
    'Name',
    { name: 'Controller', about: 'Who serves the class.' },
    { name: 'Parameters', about: 'What holds its parameters.' },
    'Age',
  ),
  cells(object, now) {
    const { parameters, controller } = object.spec ?? {};
    return [
      nameOf(object),
      controller ?? '',
      parameters === undefined ? none : `${parameters.kind}${parameters.apiGroup ? `.${parameters.apiGroup}` : ''}/${parameters.name}`,
      ageOf(object, now),
    ];
  },
};

export const networkPolicyPrinter: Printer<NetworkPolicy> = {
  columns: columnsOf('Name', { name: 'Pod-Selector', about: 'The pods it applies to.' }, 'Age'),
  cells: (object, now) => [nameOf(object), selectorText(object.spec?.podSelector), ageOf(object, now)],
};

export const ipAddressPrinter: Printer<IPAddress> = {
  columns: columnsOf('Name', { name: 'ParentRef', about: 'Who has the address.' }, 'Age'),
  cells(object, now) {
    const parent = object.spec?.parentRef;
    const parts =
      parent === undefined
        ? []
        : [parent.resource, parent.group, parent.namespace, parent.name].filter((part) => part !== undefined && part !== '');
    return [
      nameOf(object),
      parts.length === 0
        ? none
        : `${[parent?.resource, parent?.group].filter(Boolean).join('.')}/${[parent?.namespace, parent?.name].filter(Boolean).join('/')}`,
      ageOf(object, now),
    ];
  },
};

export const serviceCidrPrinter: Printer<ServiceCIDR> = {
  columns: columnsOf('Name', { name: 'CIDRs', about: 'Ranges that service addresses come from.' }, 'Age'),
  cells: (object, now) => [nameOf(object), (object.spec?.cidrs ?? []).join(','), ageOf(object, now)],
};
