// `npm run site`: builds the documentation site from the pages of the repository and the docstrings of the packages for plugin authors.
// A dead link fails the build. The packages of the site are installed in site/, on first use.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { argumentsOf } from './arguments.mjs';
import { withLinks } from './checks/links.mjs';
import { installIn, root, run, step } from './setup.mjs';

const usage = `npm run site [-- --serve]
  --serve  serves the site on a free port of 127.0.0.1 after the build`;
const { '--serve': serve = false } = argumentsOf(usage, { flags: ['--serve'] });

const site = join(root, 'site');
const pages = join(site, 'pages');
const bin = (name) => join(site, 'node_modules', '.bin', name);
const repository = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).repository.url.replace(/^git\+|\.git$/g, '');
/** The packages whose docstrings become pages. */
const documented = ['spi', 'kernel', 'controller-kit', 'testing', 'client'];
/** Markdown of the repository that is not documentation of it. */
const excluded = /^(?:\.github|packages\/cli\/(?:templates|create-oarlock-plugin))\/|\/api-report\.md$/;

const tracked = execFileSync('git', ['ls-files', '-z', '*.md', 'docs/images'], { cwd: root, encoding: 'utf8' })
  .split('\0')
  .filter((file) => file !== '' && existsSync(join(root, file)) && !excluded.test(file));
const isPage = new Set(tracked);

/** Returns where a link leads on the site: to a page, to the page of a folder, or to the repository. */
function targetOf(page, link) {
  const [path, anchor = ''] = link.split('#');
  if (path === '') return link;
  const linked = normalize(join(dirname(page), decodeURIComponent(path))).replace(/\/$/, '');
  const readme = join(linked, 'README.md');
  const to = isPage.has(linked) ? linked : isPage.has(readme) ? readme : undefined;
  const suffix = anchor === '' ? '' : `#${anchor}`;
  if (to !== undefined) return `${relative(dirname(page), to) || to}${suffix}`;
  const kind = existsSync(join(root, linked)) && statSync(join(root, linked)).isDirectory() ? 'tree' : 'blob';
  return `${repository}/${kind}/main/${linked}${suffix}`;
}

function copyPages() {
  rmSync(pages, { recursive: true, force: true });
  for (const file of tracked) {
    mkdirSync(dirname(join(pages, file)), { recursive: true });
    if (!file.endsWith('.md')) cpSync(join(root, file), join(pages, file));
    else {
      const page = readFileSync(join(root, file), 'utf8').replace(/^<!--.*-->$/gm, '');
      writeFileSync(
        join(pages, file),
        withLinks(page, (link) => targetOf(file, link)),
      );
    }
  }
}

/** Returns the files of a package that others may import. */
function modulesOf(name) {
  const folder = join(root, 'packages', name, 'src');
  return readdirSync(folder, { recursive: true })
    .map((file) => join('packages', name, 'src', file))
    .filter((file) => file.endsWith('.ts') && !file.includes('/internal/'))
    .sort();
}

const remedy = 'See the messages above; `npm run structure` names dead links by page and line.';
await step('Installing the packages of the site', () => installIn(site), 'Check that the npm registry can be reached (`npm ping`).');
copyPages();
await step(
  'Writing the API reference',
  () =>
    run(
      bin('typedoc'),
      ['--options', join(site, 'typedoc.json'), ...documented.flatMap(modulesOf).flatMap((file) => ['--entryPoints', join(root, file)])],
      { cwd: site },
    ),
  remedy,
);
await step('Building the site', () => run(bin('vitepress'), ['build', site], { cwd: site }), remedy);
console.log(`  ${relative(process.cwd(), join(site, 'dist')) || '.'}: open index.html by a server, such as npm run site -- --serve`);
if (serve) await run(bin('vitepress'), ['serve', site, '--host', '127.0.0.1', '--port', '0'], { cwd: site, show: true, timeoutMs: 0 });
