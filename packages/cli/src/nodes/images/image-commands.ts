import type { Command } from 'commander';
import { dataDir } from '../../common/command-options.ts';
import { output } from '../../common/output.ts';

/** Adds `oarlock image` and its subcommands. */
export function addImageCommands(root: Command): void {
  const image = root
    .command('image')
    .description('list, pull, load and remove images of runtime-oci; works whether the cluster runs or not');
  image
    .command('list')
    .description('list the images with their digests and sizes')
    .addOption(dataDir())
    .addOption(output())
    .action(async (options) => (await import('./images.ts')).list(options));
  image
    .command('pull')
    .description('pull an image from its registry')
    .argument('<reference>', 'name of the image, such as nginx:1.29 or registry.example.com/app@sha256:...')
    .addOption(dataDir())
    .action(async (reference, options) => (await import('./images.ts')).pull(reference, options));
  image
    .command('load')
    .description('add the images of an archive of `docker save` or of an OCI layout, plain or compressed with gzip or zstd')
    .argument('<file>', 'archive to read; - for standard input')
    .option('--reference <name>', 'name for the image of the archive, if it has none')
    .addOption(dataDir())
    .action(async (file, options) => (await import('./images.ts')).load(file, options));
  image
    .command('remove')
    .description('remove a name of an image, or by its id the image; running containers keep their files')
    .argument('<image>', 'name or id of the image')
    .addOption(dataDir())
    .action(async (name, options) => (await import('./images.ts')).remove(name, options));
}
