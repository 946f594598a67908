//! Who we are to S3: the ecosystem's variables first, then the profile in `~/.aws`, then what a container or machine is given.

use haul_model::{Environment, Error, ErrorKind, Result, Settings, nearest};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What was found out; the secret parts are never printed.
#[derive(Default, Clone)]
pub struct Found {
    /// Key id, secret, and token of a session.
    pub keys: Option<(String, String, Option<String>)>,
    /// Region.
    pub region: Option<String>,
    /// Endpoint of another S3 than Amazon's.
    pub endpoint: Option<String>,
}

/// Looks at settings, variables and the profile, in this order for each of them.
///
/// # Errors
/// `Config`: a profile that is not there, or asks for something that Haul does not do; `Permission` and IO of its files.
pub fn find(settings: &Settings, env: &Environment) -> Result<Found> {
    let asked = settings.text("profile");
    let profile = read_profile(asked, env)?;
    let from_env = || {
        let (id, secret) = (env.var("AWS_ACCESS_KEY_ID")?, env.var("AWS_SECRET_ACCESS_KEY")?);
        Some((id.to_string(), secret.to_string(), env.var("AWS_SESSION_TOKEN").map(str::to_string)))
    };
    let of_profile = || {
        let (id, secret) = (profile.get("aws_access_key_id")?, profile.get("aws_secret_access_key")?);
        Some((id.clone(), secret.clone(), profile.get("aws_session_token").cloned()))
    };
    // A profile that was asked for by name wins over variables, as in Amazon's own tools.
    let keys = match asked {
        Some(_) => of_profile(),
        None => from_env().or_else(of_profile),
    };
    if keys.is_none()
        && let Some(other) =
            ["role_arn", "sso_session", "sso_start_url", "credential_process"].iter().find(|key| profile.contains_key(**key))
        && env.var("AWS_WEB_IDENTITY_TOKEN_FILE").is_none()
    {
        return Err(Error::new(ErrorKind::Unsupported, format!("the profile gets its keys by {other}, which Haul does not do"))
            .hint("export keys for it first: eval \"$(aws configure export-credentials --format env)\""));
    }
    let text = |name: &str| settings.text(name).map(str::to_string);
    let var = |names: &[&str]| names.iter().find_map(|name| env.var(name)).map(str::to_string);
    let region = text("region").or_else(|| var(&["AWS_REGION", "AWS_DEFAULT_REGION"])).or_else(|| profile.get("region").cloned());
    let endpoint =
        text("endpoint").or_else(|| var(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])).or_else(|| profile.get("endpoint_url").cloned());
    if let Some(endpoint) = &endpoint {
        check_endpoint(endpoint)?;
    }
    Ok(Found { keys, region, endpoint })
}

fn check_endpoint(endpoint: &str) -> Result<()> {
    let bad = |told: String| Err(Error::new(ErrorKind::Config, told).hint("for example http://127.0.0.1:9000"));
    let Some(host) = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://")) else {
        return bad(format!("the endpoint {:?} is no http:// or https:// URL", endpoint.rsplit('@').next().unwrap_or_default()));
    };
    match host.contains(['@', '?', '#']) {
        true => bad("the endpoint is a host and a port, without user or query".into()),
        false => Ok(()),
    }
}

/// The settings of a profile, of both files. Empty where no profile was asked for and there is no default one.
fn read_profile(asked: Option<&str>, env: &Environment) -> Result<BTreeMap<String, String>> {
    let named = asked.or_else(|| env.var("AWS_PROFILE"));
    let name = named.unwrap_or("default");
    let file = |var: &str, path: &str| env.var(var).map(PathBuf::from).or_else(|| Some(env.home.as_ref()?.join(path)));
    let (mut all, mut names) = (BTreeMap::new(), Vec::new());
    let mut found = false;
    for (path, prefix) in
        [(file("AWS_CONFIG_FILE", ".aws/config"), "profile "), (file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"), "")]
    {
        let Some(path) = path else { continue };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(Error::io(path.display().to_string(), "cannot read", e)),
        };
        for (section, key, value) in entries(&text) {
            // In the one file other profiles than the default one have a word before their names.
            let section = if section == "default" { section } else { section.strip_prefix(prefix).map_or("", str::trim) };
            names.push(section.to_string());
            if section == name {
                found = true;
                all.insert(key.to_string(), value.to_string());
            }
        }
    }
    if !found && named.is_some() {
        let error = Error::new(ErrorKind::Config, format!("there is no AWS profile {name:?}"));
        return Err(match nearest(name, names.iter().map(String::as_str).filter(|n| !n.is_empty())) {
            Some(near) => error.hint(format!("did you mean {near:?}?")),
            None => error.hint("profiles stand in ~/.aws/config and ~/.aws/credentials"),
        });
    }
    Ok(all)
}

/// Section, key and value of each line that has them; nested settings (indented) are left out.
fn entries(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let mut section = "";
    text.lines().filter_map(move |line| {
        let trimmed = line.trim();
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            section = name.0.trim();
            return None;
        }
        if trimmed.starts_with(['#', ';']) || line.starts_with([' ', '\t']) {
            return None;
        }
        let (key, value) = trimmed.split_once('=')?;
        Some((section, key.trim(), value.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(vars: &[(&str, &str)], home: &std::path::Path) -> Environment {
        let vars = vars.iter().map(|(n, v)| ((*n).to_string(), (*v).to_string())).collect();
        Environment { vars, home: Some(home.to_path_buf()), ..Environment::default() }
    }

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        Settings::resolve(&[super::super::config::COMMON], pairs.iter().copied(), "object").unwrap()
    }

    #[test]
    fn variables_then_profiles() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        std::fs::write(
            home.path().join(".aws/config"),
            "[default]\nregion = eu-west-1\ns3 =\n  addressing_style = path\n[profile work]\nregion=eu-north-1\nendpoint_url = http://x:1\n[profile sso]\nsso_session = s\n",
        )
        .unwrap();
        std::fs::write(
            home.path().join(".aws/credentials"),
            "# keys\n[default]\naws_access_key_id = A\naws_secret_access_key = SA\n[work]\naws_access_key_id=W\naws_secret_access_key=SW\naws_session_token=T\n",
        )
        .unwrap();
        let key = |found: &Found| found.keys.clone().map(|(id, ..)| id);
        let found = find(&settings(&[]), &environment(&[], home.path())).unwrap();
        assert_eq!((key(&found).as_deref(), found.region.as_deref(), found.endpoint), (Some("A"), Some("eu-west-1"), None));
        let vars = [("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "SE"), ("AWS_PROFILE", "work"), ("AWS_ENDPOINT_URL", "http://y")];
        let env = environment(&vars, home.path());
        let found = find(&settings(&[]), &env).unwrap();
        assert_eq!(
            (key(&found).as_deref(), found.region.as_deref(), found.endpoint.as_deref()),
            (Some("E"), Some("eu-north-1"), Some("http://y"))
        );
        let found = find(&settings(&[("profile", "work"), ("region", "r")]), &env).unwrap();
        assert_eq!((key(&found).as_deref(), found.region.as_deref()), (Some("W"), Some("r")));
        assert_eq!(found.keys.unwrap().2.as_deref(), Some("T"));
        let error = find(&settings(&[("profile", "wrok")]), &env).map(|_| ()).unwrap_err();
        assert!(error.hint_text().unwrap().contains("\"work\""), "{error}");
        let error = find(&settings(&[("profile", "sso")]), &env).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("sso_session"), "{error}");
    }

    #[test]
    fn nothing_at_all() {
        let home = tempfile::tempdir().unwrap();
        assert!(find(&settings(&[]), &environment(&[], home.path())).unwrap().keys.is_none());
        assert!(find(&settings(&[]), &environment(&[("AWS_PROFILE", "x")], home.path())).is_err());
    }
}
