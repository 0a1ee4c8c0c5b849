const kinds = ['bridge', 'veth', 'nf_tables'] as const;
/** A kernel module that the network of a node without root needs. */
type KernelModule = (typeof kinds)[number];

const commands: Readonly<Record<KernelModule, string>> = {
  bridge: 'ip link add oarlock0 type bridge',
  veth: 'ip link add oarlock1 type veth peer name oarlock2',
  nf_tables: 'nft add table ip oarlock',
};

/** A script that uses each module once, in namespaces of its own. The last line of its errors names the module that it failed with. */
export const moduleScript = kinds.map((name) => `${commands[name]} || { echo 'failed: ${name}' >&2; exit 1; }`).join('\n');

/**
 * Returns the kernel module that the errors of `moduleScript` show to be missing, with the remedy; undefined if the script failed for another reason or never
 * ran, as where the kernel denies namespaces. The kernel loads a module by itself when it is installed, also for an ordinary user.
 */
export function missingKernelModule(errors: string): string | undefined {
  const name = kinds.find((kind) => errors.includes(`failed: ${kind}`));
  if (name === undefined || !/unknown device type|not supported/i.test(errors)) return undefined;
  return `the kernel lacks the module ${name}: as root, run \`modprobe ${name}\`; if that does not find it, install the modules of the running kernel (uname -r), or restart after an update of the kernel; or use the composition embedded`;
}
