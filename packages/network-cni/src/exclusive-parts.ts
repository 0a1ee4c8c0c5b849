/** The part of a network plugin's config that decides what it uses of the machine besides its own interfaces. */
export interface NetworkUse {
  /** Directory of the conflist for container runtimes; null if the plugin writes none. */
  readonly confDir: string | null;
  readonly routes: string;
  readonly vxlan: { readonly device: string; readonly id: number; readonly port: number };
}

/**
 * Returns what a network plugin uses exclusively: runtimes use the first conflist of a directory, whichever cluster wrote it, and a machine has one
 * VXLAN device of a name, and one of an id and a port.
 */
export const networkParts = ({ confDir, routes, vxlan }: NetworkUse): readonly string[] => [
  ...(confDir === null ? [] : [`the CNI configurations in ${confDir}`]),
  ...(routes === 'vxlan' ? [`the VXLAN device ${vxlan.device}`, `the VXLAN ${vxlan.id} on UDP port ${vxlan.port}`] : []),
];
