import { z } from 'zod';

const directory = z.string().startsWith('/', 'must be an absolute path');
const interfaceName = z.string().regex(/^[a-zA-Z][a-zA-Z0-9_.-]{0,14}$/, 'must be the name of an interface, at most 15 characters');
const asNumber = z.int().min(1).max(0xff_ff_ff_ff);
const address = z.union([z.ipv4(), z.ipv6()]);

const pool = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, 'must be a DNS name in lower case')
    .optional(),
  cidr: z.string(),
  blockSize: z.int().min(8).max(126).optional(),
  nat: z.boolean().default(true),
  onRequest: z.boolean().default(false),
});

const bgp = z.strictObject({
  asNumber: asNumber.default(64_512),
  /** True if each node peers with every other node. Route reflectors replace this mesh. */
  mesh: z.boolean().default(true),
  /** The label `KEY=VALUE` of the nodes that are route reflectors. All other nodes peer only with these nodes. */
  reflectors: z
    .string()
    .regex(/^[a-zA-Z0-9./_-]+=[a-zA-Z0-9._-]*$/, 'must be a label as KEY=VALUE')
    .optional(),
  /** BGP routers outside of the cluster. */
  peers: z.array(z.strictObject({ address, asNumber })).max(64).default([]),
  port: z.int().min(1).max(65_535).default(179),
  program: directory.default('/usr/sbin/bird'),
});

/** The schema of the plugin's configuration in cluster.yaml. */
export const calicoConfig = z.strictObject({
  /** The IP pools; by default the cluster CIDRs. */
  pools: z.array(pool).min(1).max(64).optional(),
  /** `blocks`: nodes claim blocks of the pools as needed. `podCIDR`: each node uses its own spec.podCIDRs. */
  addresses: z.enum(['blocks', 'podCIDR']).default('blocks'),
  /** The way to pods of other nodes. With `none`, the plugin programs no routes to other nodes. */
  routes: z.enum(['direct', 'vxlan', 'bgp', 'none']).default('direct'),
  vxlan: z
    .strictObject({
      device: interfaceName.default('oarlock-cvx'),
      id: z.int().min(1).max(0xff_ff_ff).default(4096),
      port: z.int().min(1).max(65_535).default(4789),
    })
    .prefault({}),
  bgp: bgp.prefault({}),
  mtu: z.int().min(576).max(65_535).optional(),
  interfacePrefix: z
    .string()
    .regex(/^[a-zA-Z][a-zA-Z0-9]{0,6}$/, 'must be 1 to 7 letters and digits')
    .default('cali'),
  name: z
    .string()
    .regex(/^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$/, 'must be a name of letters, digits, "_", "." and "-"')
    .default('oarlock-calico'),
  binDirs: z.array(directory).min(1).default(['/opt/cni/bin', '/usr/lib/cni']),
  confDir: directory.nullable().default('/etc/cni/net.d'),
  confFile: z
    .string()
    .regex(/^[a-zA-Z0-9][a-zA-Z0-9._-]*\.conflist$/, 'must be the name of a .conflist file')
    .default('10-oarlock-calico.conflist'),
  bandwidth: z.enum(['auto', 'on', 'off']).default('auto'),
  timeoutSeconds: z.number().min(1).max(600).default(60),
  gcGraceSeconds: z.number().min(0).max(86_400).default(300),
  /** If set, Calico's own binaries connect pods: the plugin writes the conflist of the binaries and runs them. */
  upstream: z
    .strictObject({
      kubeconfig: directory.default('/etc/cni/net.d/calico-kubeconfig'),
      ipam: z.enum(['calico-ipam', 'host-local']).default('calico-ipam'),
      logLevel: z.enum(['debug', 'info', 'warning', 'error']).default('warning'),
    })
    .optional(),
});
export type CalicoConfig = z.output<typeof calicoConfig>;
