import type { FunctionComponent } from 'preact';
import { useEffect, useReducer, useRef, useState } from 'preact/hooks';
import { ErrorBoundary } from '../components/error-boundary.tsx';
import { ErrorMessage } from '../components/error-message.tsx';
import { text } from '../text/en.ts';
import { navigationOf, views, type View } from '../views/registry.ts';
import type { ViewProps } from '../views/view-props.ts';
import { useApp } from './context.ts';
import { HelpDialog } from './help-dialog.tsx';
import { useKeys } from './keyboard.ts';
import { matchPath, parseLocation, type Location } from './router.ts';
import { SearchDialog } from './search-dialog.tsx';
import type { SignedOut } from './session.ts';
import { ThemeSelect } from './theme-select.tsx';
import { UserMenu } from './user-menu.tsx';

function useLocation(): Location {
  const [current, setCurrent] = useState(() => parseLocation(location.hash));
  useEffect(() => {
    const onHashChange = () => setCurrent(parseLocation(location.hash));
    addEventListener('hashchange', onHashChange);
    return () => removeEventListener('hashchange', onHashChange);
  }, []);
  return current;
}

/** The frame around all views: navigation, search, user, and the view of the current address. */
export function Frame({ onSignedOut }: { readonly onSignedOut: (result: SignedOut) => void }) {
  const { client, session, features } = useApp();
  const navigation = navigationOf(features);
  const current = useLocation();
  const [dialog, setDialog] = useState<'help' | 'search'>();
  // a change of the impersonated user shows every view anew
  const [identity, changeIdentity] = useReducer((count: number) => count + 1, 0);
  const lastPath = useRef(current.path);
  // a link of the view that it left had the focus: the new view gets it, so that Tab and screen readers continue there
  useEffect(() => {
    if (lastPath.current !== current.path && document.activeElement === document.body) focusMain();
    lastPath.current = current.path;
  }, [current.path]);
  useKeys((keys) => {
    if (keys === '?') setDialog('help');
    else if (keys === '/') setDialog('search');
    else {
      const item = navigation.find((each) => each.keys === keys);
      if (item === undefined) return false;
      location.hash = item.href;
    }
    return true;
  });
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        focusMain();
      }}>
        {text.skipToContent}
      </a>
      <header class="top">
        <a class="brand" href="#/">
          {text.product}
        </a>
        <span class="cluster-name">{session.cluster?.name ?? ''}</span>
        <button type="button" class="search-button" onClick={() => setDialog('search')}>
          {text.search} <kbd>/</kbd>
        </button>
        <span class="grow" />
        <ThemeSelect />
        <button type="button" class="quiet" onClick={() => setDialog('help')}>
          {text.helpButton} <kbd>?</kbd>
        </button>
        <UserMenu onChanged={() => changeIdentity(undefined)} onSignedOut={onSignedOut} />
      </header>
      <div class="body">
        <nav class="side" aria-label={text.navigation}>
          <ul>
            {navigation.map(({ label, href, keys }) => (
              <li key={href}>
                <a href={href} aria-keyshortcuts={keys} {...(isCurrent(href, current) && { 'aria-current': 'page' as const })}>
                  {label}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <main id="main" tabIndex={-1}>
          <ErrorBoundary key={`${viewPath(current)} ${identity}`} position={current.path}>
            <CurrentView key={`${identity} ${client.impersonation?.user ?? ''}`} current={current} />
          </ErrorBoundary>
        </main>
      </div>
      {dialog === 'help' && <HelpDialog onClose={() => setDialog(undefined)} />}
      {dialog === 'search' && <SearchDialog onClose={() => setDialog(undefined)} />}
    </>
  );
}

/** Returns true for the address of a link and those below it; for a table, also for the pages of its objects. */
function isCurrent(href: string, { path }: Location): boolean {
  const table = path.replace(/^\/o\/([^/]+\/[^/]+\/[^/]+)\/.*/, '/r/$1');
  const target = parseLocation(href).path;
  return table === target || (target !== '/' && path.startsWith(`${target}/`));
}

/** The path of an object without its tab: a tab is another part of the same view, which stays and keeps its connections. */
const viewPath = ({ path }: Location): string => (path.startsWith('/o/') ? path.split('/').slice(0, 7).join('/') : path);

function focusMain(): void {
  document.querySelector<HTMLElement>('#main')?.focus();
}

interface LoadedView {
  readonly view: View;
  readonly Component: FunctionComponent<ViewProps>;
}

function CurrentView({ current }: { readonly current: Location }) {
  const { features } = useApp();
  const [loaded, setLoaded] = useState<LoadedView>();
  const [error, setError] = useState<unknown>();
  const matching = views.map((view) => ({ view, params: matchPath(view.path, current.path) })).find(({ params }) => params !== undefined);
  const view = matching?.view;
  useEffect(() => {
    if (view === undefined || loaded?.view === view) return;
    let isObsolete = false;
    view.load().then(
      ({ View: Component }) => {
        if (!isObsolete) setLoaded({ view, Component });
      },
      (reason: unknown) => setError(reason),
    );
    return () => {
      isObsolete = true;
    };
  }, [view]);
  if (error !== undefined) return <ErrorMessage title={text.errors.view} error={error} onRetry={() => location.reload()} />;
  if (matching?.params === undefined) return <p class="empty">{text.errors.notFound}</p>;
  if (view?.onlyOarlock === true && !features.isOarlock) return <p class="empty">{text.errors.onlyOarlock}</p>;
  if (loaded === undefined || loaded.view !== view) return <p class="empty" aria-busy="true">{text.connection.connecting}</p>;
  return <loaded.Component params={matching.params} query={current.query} />;
}
