/** Where network plugins look for CNI executables by default. */
export const cniDirectories: readonly string[] = ['/opt/cni/bin', '/usr/lib/cni'];
/** The executables that network-bridge calls. */
export const bridgePlugins: readonly string[] = ['bridge', 'host-local', 'portmap', 'loopback'];

/** Returns the CNI executables of network-bridge that are in none of the directories. */
export async function missingBridgePlugins(
  exists: (path: string) => Promise<boolean>,
  directories: readonly string[] = cniDirectories,
): Promise<readonly string[]> {
  const missing: string[] = [];
  for (const name of bridgePlugins) {
    const found = await Promise.all(directories.map((directory) => exists(`${directory}/${name}`)));
    if (!found.includes(true)) missing.push(name);
  }
  return missing;
}
