import { readClusterFile } from '@oarlock/cluster/cluster-file';
import { plan } from '@oarlock/cluster/plan';
import { checkPlan } from '@oarlock/cluster/check';
import { stringify } from 'yaml';

/** Reads the file, loads its plugins, checks each config and the graph. Nothing is started and the machine is not asked. */
export async function validate({ file }: { readonly file: string }): Promise<void> {
  const planned = await plan(await readClusterFile(file));
  checkPlan(planned);
  console.log(`${file} is valid: ${planned.roles.join(', ')} with ${planned.plugins.length} plugins`);
}

export async function print({ file }: { readonly file: string }): Promise<void> {
  const read = await readClusterFile(file);
  const planned = await plan(read);
  checkPlan(planned);
  process.stdout.write(
    stringify({
      apiVersion: 'oarlock.dev/v1',
      kind: 'Cluster',
      metadata: { name: read.name },
      spec: { ...read.spec, roles: planned.roles },
    }),
  );
}
