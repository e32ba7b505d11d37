"""The data sets that sordino knows by name."""

from __future__ import annotations

from sordino.data.dataset import Dataset
from sordino.data.loaders.adult import adult
from sordino.data.loaders.cifar10 import cifar10
from sordino.data.loaders.digits import digits
from sordino.data.loaders.emnist_digits import femnist_digits
from sordino.data.loaders.heart import heart
from sordino.data.loaders.leaf import femnist, leaf
from sordino.data.loaders.mnist import mnist, mnist_writers
from sordino.data.loaders.own import own_csv, own_npz
from sordino.data.loaders.people import ACTIVITIES, parkinsons, wisdm

_IDX = ("train-images-idx3-ubyte*", "train-images.idx3-ubyte*")
_FOUR_FILES = (
    "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz"
)

_ALL = (
    Dataset(
        "digits", "Handwritten digits of 8 × 8 pixels, from scikit-learn", digits, 1437, 360, 10, public_test=True,
        how_to_get="It is installed with scikit-learn.",
    ),
    Dataset(
        "mnist", "Handwritten digits of 28 × 28 pixels", mnist, 60_000, 10_000, 10, public_test=True,
        places=("mnist", "MNIST/raw", "MNIST"), markers=_IDX,
        how_to_get=f"Put {_FOUR_FILES} (from yann.lecun.com/exdb/mnist or its mirrors) into the folder mnist.",
    ),
    Dataset(
        "fashion-mnist", "Articles of clothing of 28 × 28 pixels", mnist, 60_000, 10_000, 10, public_test=True,
        places=("fashion-mnist", "FashionMNIST/raw", "FashionMNIST", "fashion_mnist"), markers=_IDX,
        how_to_get=f"Put {_FOUR_FILES} (from github.com/zalandoresearch/fashion-mnist) into the folder fashion-mnist.",
        class_names=(
            "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
        ),
    ),
    Dataset(
        "mnist-writers", "MNIST with the writer of every image", mnist_writers, 60_000, 10_000, 10, public_test=True,
        natural_key="writer", natural_clients=539,
        places=("mnist-writers", "QMNIST/raw", "qmnist"), markers=("qmnist-train-labels*",),
        how_to_get="Put qmnist-train-labels-idx2-int.gz (from github.com/facebookresearch/qmnist) into the folder "
        "mnist-writers, and MNIST's four files into the folder mnist.",
    ),
    Dataset(
        "cifar10", "Small colour photographs, 32 × 32 pixels", cifar10, 50_000, 10_000, 10, public_test=True,
        places=("cifar10", "cifar-10-batches-bin", "cifar-10-batches-py"), markers=("data_batch_1*",),
        how_to_get="Unpack cifar-10-binary.tar.gz or cifar-10-python.tar.gz (from www.cs.toronto.edu/~kriz/cifar.html) "
        "into the data folder.",
        class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    ),
    Dataset(
        "adult", "Census income: whether a person earns more than 50,000 dollars", adult, 32_561, 16_281, 2,
        public_test=True,
        places=("adult",), markers=("adult.data",),
        how_to_get="Put adult.data and adult.test (from archive.ics.uci.edu/dataset/2/adult) into the folder adult.",
        class_names=("at most 50,000", "more"),
    ),
    Dataset(
        "heart-disease", "Patients of four hospitals: whether they have heart disease", heart, 486, 254, 2,
        natural_key="hospital", natural_clients=4,
        places=("heart-disease", "heart_disease"), markers=("processed.cleveland.data",),
        how_to_get="Put processed.{cleveland,hungarian,switzerland,va}.data (from "
        "archive.ics.uci.edu/dataset/45/heart+disease) into the folder heart-disease.",
        class_names=("no disease", "disease"),
    ),
    Dataset(
        "femnist", "Handwritten characters by writer, as LEAF json", femnist, None, None, 62,
        natural_key="writer",
        places=("femnist/data", "femnist"), markers=("train/*.json",),
        how_to_get="Run preprocess.sh -s niid -t sample in data/femnist of github.com/TalwalkarLab/leaf and copy its "
        "folder data to the folder femnist.",
    ),
    Dataset(
        "femnist-digits", "FEMNIST's digits by writer, as Google or LEAF have them", femnist_digits, None, None, 10,
        natural_key="writer",
        places=("femnist-digits", "femnist/data", "femnist"),
        markers=("fed_emnist_digitsonly_train.h5", "train/*.json"),
        how_to_get="Put fed_emnist_digitsonly_train.h5 and fed_emnist_digitsonly_test.h5 (of TensorFlow Federated's "
        "fed_emnist_digitsonly.tar.bz2) into the folder femnist-digits, or LEAF's femnist there.",
    ),
    Dataset(
        "leaf", "Any other numeric data set as LEAF json", leaf,
        natural_key="user", places=("leaf/data", "leaf"), markers=("train/*.json",),
        how_to_get="Put train/*.json and test/*.json (users, user_data → user → x, y) into the folder leaf.",
    ),
    Dataset(
        "wisdm", "Phone accelerometer: which of six activities", wisdm, 4530, 888, 6,
        natural_key="person", natural_clients=29,
        places=("wisdm", "WISDM_ar_v1.1"), markers=("WISDM_ar_v1.1_transformed.arff",),
        how_to_get="Put WISDM_ar_v1.1_transformed.arff (from www.cis.fordham.edu/wisdm/dataset.php) into the folder "
        "wisdm.",
        class_names=ACTIVITIES,
    ),
    Dataset(
        "parkinsons", "Voice recordings: severity of Parkinson's disease (regression)", parkinsons, 4703, 1172, 0,
        natural_key="person", natural_clients=34,
        places=("parkinsons-telemonitoring", "parkinsons"), markers=("parkinsons_updrs.data",),
        how_to_get="Put parkinsons_updrs.data (from archive.ics.uci.edu/dataset/189/parkinsons+telemonitoring) into "
        "the folder parkinsons.",
        unit="of the full UPDRS score",
    ),
    Dataset(
        "csv", "Your own table: a CSV file with a header", own_csv, natural_key="a column",
        how_to_get="Set data.file to your file, data.label to the column to predict, data.client to the owners' one.",
    ),
    Dataset(
        "npz", "Your own arrays: an NPZ file with x, y and perhaps client, test_x, test_y", own_npz,
        natural_key="the array client",
        how_to_get="Set data.file to a file that numpy.savez wrote.",
    ),
)  # fmt: skip

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}
"""Every data set by its name in recipes."""
